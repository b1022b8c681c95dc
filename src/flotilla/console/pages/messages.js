// Messages of a topic: read from a place, searched within a bound, or followed as they come.
import { cli, get, given, piped, query, url, useApi, useRights } from "../lib/api.js";
import { BINARY, asText, keyText, number, plural, preview, time, toBase64 } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Loading, Note, Page, Same, Table, link, readPairs, useAction } from "../lib/parts.js";

const WANTED = 50;
/** Records that one request looks at, from the newest on. */
const STEP = 500;
/** Records of a partition that one search looks at before it asks whether to look further. */
const LOOKED_MAX = 20000;
const LIVE_MAX = 500;

/** Numbers of content types that only programs read, by their names in a command. */
const TYPES = Object.fromEntries(Object.entries(BINARY).map(([number, name]) => [name.toLowerCase(), number]));

/** The action that produces a message; `known` are values to begin with, as of one that is sent again. */
export function produceAction(topic, known, done) {
  function record(values) {
    const headers = Object.entries(readPairs(values.headers)).map(([name, value]) => ({ name, value: toBase64(value) }));
    const found = {};
    if (values.kind === "json") found.payload_json = JSON.parse(values.payload);
    else if (values.kind === "text") found.payload_text = values.payload;
    else found.payload = values.payload.trim();
    if (TYPES[values.kind]) found.content_type = Number(TYPES[values.kind]);
    if (values.key) found.key_text = values.key;
    if (headers.length) found.headers = headers;
    if (Number(values.delay)) found.delay_ms = Number(values.delay) * 1000;
    if (Number(values.priority)) found.priority = Number(values.priority);
    return found;
  }
  return {
    title: known.payload === undefined ? `Produce to ${topic}` : `Send again to ${topic}`,
    button: "Send",
    fields: [
      { name: "payload", label: "Payload", type: "area", value: known.payload ?? "" },
      { name: "kind", label: "Content", options: [["text", "text"], ["json", "JSON"], ["base64", "bytes in base64"], ...Object.values(BINARY).map((name) => [name.toLowerCase(), `${name} in base64`])], value: known.kind ?? "text" },
      { name: "key", label: "Key", value: known.key ?? "", help: "Messages of one key keep their order." },
      { name: "headers", label: "Headers, one name=value a line", type: "area", rows: 2, value: known.headers ?? "" },
      { name: "delay", label: "Deliver after seconds", type: "number", min: 0, value: 0 },
      { name: "priority", label: "Priority", type: "number", min: 0, value: known.priority ?? 0, help: "Higher is delivered first." },
    ],
    build: (values) => {
      let found;
      try {
        found = record(values);
      } catch (error) {
        throw new Error(values.kind === "json" && error instanceof SyntaxError ? `The payload is not JSON: ${error.message}` : error.message);
      }
      const line = (last) => cli("produce", topic, values.key ? ["--key", values.key] : [],
        Object.entries(readPairs(values.headers)).flatMap(([name, value]) => ["--header", `${name}=${value}`]),
        values.kind === "base64" ? [] : ["--content-type", values.kind],
        Number(values.delay) ? ["--delay", `${values.delay}s`] : [], Number(values.priority) ? ["--priority", values.priority] : [], last);
      return {
        method: "POST", path: url`/v1/topics/${topic}/records`, body: { records: [found] },
        cli: found.payload !== undefined ? piped(found.payload, line("--whole")) : line(given(values.kind === "json" ? JSON.stringify(found.payload_json) : values.payload)),
      };
    },
    done,
  };
}

/** The filter as the broker takes it: nothing else is sent. */
const filterOf = (wanted) => ({ key: wanted.key, headers: wanted.headers, contains: wanted.text });

/** Where a search of one partition begins, and between which offsets it goes; `asked` are its requests. */
async function begin(path, wanted, signal) {
  const asked = [];
  const offsetAt = async (at) => (await get(`${path}/offset?timestamp_ms=${at}`, signal)).offset;
  const [first, end] = [await offsetAt(-2), await offsetAt(-1)];
  let position = wanted.from === "newest" ? end : first;
  if (wanted.from === "offset") position = Math.min(Math.max(Number(wanted.at) || 0, first), end);
  if (wanted.from === "time") {
    const at = new Date(wanted.at).getTime() || 0;
    const found = await offsetAt(at);
    position = found < 0 ? end : Math.max(found, first);
    asked.push(`${path}/offset?timestamp_ms=${at}`);
  }
  return { position, first, end, asked };
}

/** Looks through one partition, forwards or backwards, up to enough matches or the bound; `place` is where it goes on. */
async function scan(topic, partition, wanted, place, { signal, progress }) {
  const path = url`/v1/topics/${topic}/partitions/${partition}`;
  const { position: from, first, end, asked } = place ?? (await begin(path, wanted, signal));
  const isBackwards = wanted.from === "newest";
  const filter = filterOf(wanted);
  const size = Object.values(filter).some(Boolean) ? STEP : WANTED;
  const records = [];
  let position = from;
  let looked = 0;
  while (records.length < WANTED && looked < LOOKED_MAX && (isBackwards ? position > first : position < end)) {
    const start = isBackwards ? Math.max(position - size, first) : position;
    const until = isBackwards ? position : end;
    const found = [];
    let at = start;
    do {
      const request = `${path}/records` + query({ offset: at, until, limit: isBackwards ? until - at : WANTED - records.length, ...filter });
      if (!place && looked === 0) asked.push(request);
      const page = await get(request, signal);
      found.push(...page.records.map((record) => ({ ...record, partition })));
      looked += page.looked;
      progress(page.looked);
      // What an open transaction has stored is not to be read yet.
      if (page.next <= at) break;
      at = page.next;
    } while (isBackwards && at < until);
    records.push(...(isBackwards ? found.reverse() : found));
    if (!isBackwards && at === start) return { partition, records, position, first, end: position, asked };
    position = isBackwards ? start : at;
  }
  return { partition, records, position, first, end, asked };
}

const isOver = (page, isBackwards) => (isBackwards ? page.position <= page.first : page.position >= page.end);

/** What several partitions have found, in order, up to a page of it; the rest is looked for again. */
function merge(pages, isBackwards) {
  const order = isBackwards ? -1 : 1;
  const all = pages.flatMap((page) => page.records).sort((a, b) => order * (a.timestamp_ms - b.timestamp_ms) || order * (a.offset - b.offset));
  const places = {};
  for (const page of pages) {
    const left = all.slice(WANTED).filter((row) => row.partition === page.partition).map((row) => row.offset);
    if (left.length) page.position = isBackwards ? Math.max(...left) + 1 : Math.min(...left);
    if (!isOver(page, isBackwards)) places[page.partition] = page;
  }
  return { rows: all.slice(0, WANTED), places };
}

export const MessageRows = ({ topic, rows, empty }) => html`<${Table} label="Messages" rows=${rows} rowKey=${(row) => `${row.partition}:${row.offset}`}
  href=${(row) => link("topics", topic, "messages", row.partition, row.offset)} empty=${empty}
  columns=${[
    ["Place", (row) => html`<span class="mono">${row.partition}:${row.offset}</span>`, "one"],
    ["Time", (row) => html`<span class="mono dim">${time(row.timestamp_ms)}</span>`, "one"],
    ["Key", (row) => keyText(row)],
    ["Payload", (row) => preview(row), "preview"],
    ["Headers", (row) => (row.headers ?? []).map((pair) => html`<${Badge}>${pair.name}: ${asText(pair.value) ?? "bytes"}<//> `)],
  ]} />`;

const AGAIN_MS = 1000;
const interrupted = { code: "UNREACHABLE", message: "the live tail was interrupted; the console tries again" };

/** Follows a partition from its end on, through interruptions, and misses nothing. Returns what ends it. */
function follow(path, filter, { opened, came, failed }) {
  const ending = new AbortController();
  let next = null;
  let timer = 0;
  let source = null;
  const again = () => { timer = setTimeout(open, AGAIN_MS); };
  async function open() {
    try {
      next ??= (await get(`${path}/offset?timestamp_ms=-1`, ending.signal)).offset;
    } catch (error) {
      if (ending.signal.aborted) return;
      failed(error);
      again();
      return;
    }
    if (ending.signal.aborted) return;
    source = new EventSource(`${path}/follow` + query({ offset: next, ...filter }));
    source.onopen = opened;
    source.onmessage = (event) => {
      const record = JSON.parse(event.data);
      next = record.offset + 1;
      came(record);
    };
    source.addEventListener("error", (event) => {
      if (event.data) failed(JSON.parse(event.data));
      // The browser connects again after a lost connection, but not after an answer that is an error.
      if (source.readyState !== EventSource.CLOSED) return;
      failed(interrupted);
      again();
    });
  }
  open();
  return () => {
    ending.abort();
    clearTimeout(timer);
    source?.close();
  };
}

function useTail(topic, partitions, wanted, isLive) {
  const [rows, setRows] = useState([]);
  const [error, setError] = useState(null);
  const [open, setOpen] = useState({});
  useEffect(() => {
    if (!isLive) return undefined;
    setRows([]);
    setError(null);
    setOpen({});
    const ends = partitions.map((partition) => follow(url`/v1/topics/${topic}/partitions/${partition}`, filterOf(wanted), {
      opened: () => { setOpen((last) => ({ ...last, [partition]: true })); setError(null); },
      came: (record) => setRows((last) => [{ ...record, partition }, ...last].slice(0, LIVE_MAX)),
      failed: setError,
    }));
    return () => ends.forEach((end) => end());
  }, [topic, partitions.join(), JSON.stringify(wanted), isLive]);
  return [rows, error, partitions.every((partition) => open[partition])];
}

/** Partitions for which the page shows commands. */
const SAME_MAX = 3;

/** Commands that show the same messages: `peek` from a place, `consume` from a time on, through a filter, or live. */
function commands(topic, wanted, partitions, isLive) {
  if (!isLive && !wanted.key && !wanted.text && !wanted.headers && wanted.from !== "time") {
    return partitions.map((n) => cli("peek", topic, "--partition", n, wanted.from === "newest" ? "--newest" : wanted.from === "offset" ? ["--offset", Number(wanted.at) || 0] : [], "-n", WANTED));
  }
  const place = wanted.from === "offset" ? String(Number(wanted.at) || 0) : wanted.from === "time" ? new Date(wanted.at || 0).toISOString() : "";
  const line = cli("consume", topic, wanted.partition === "all" ? [] : ["--partition", wanted.partition], isLive ? ["--follow", "--from", "latest"] : place ? ["--from", place] : [],
    wanted.headers ? ["--header", wanted.headers.replace(":", "=")] : [], wanted.key ? ["--key", wanted.key] : [], wanted.text ? ["--contains", wanted.text] : [], "--format", "long");
  return [line];
}

/** What the page has asked for, or would ask for first: a place that only the cluster knows is asked for before. */
function requests(topic, wanted, partitions, isLive, asked) {
  if (asked.length && !isLive) return asked;
  const filter = filterOf(wanted);
  return partitions.slice(0, SAME_MAX).flatMap((n) => {
    const path = url`/v1/topics/${topic}/partitions/${n}`;
    if (isLive) return [`${path}/follow` + query(filter)];
    const records = `${path}/records` + query({ offset: wanted.from === "offset" ? wanted.at || 0 : wanted.from === "oldest" ? 0 : "OFFSET", limit: WANTED, ...filter });
    if (wanted.from === "time") return [`${path}/offset?timestamp_ms=${new Date(wanted.at).getTime() || 0}`, records];
    return wanted.from === "newest" ? [`${path}/offset?timestamp_ms=-1`, records] : [records];
  });
}

const NOTHING = { rows: [], error: null, looked: 0, places: {}, asked: [], isLooking: false };

/** Browsers open six connections to one origin: a tail leaves some for the rest of the page. */
const LIVE_PARTITIONS_MAX = 4;

export default function Messages({ topic, search }) {
  const { data, error } = useApi(url`/v1/topics/${topic}`, 30000);
  const [wanted, setWanted] = useState({ partition: search.partition ?? "all", from: search.offset ? "offset" : "newest", at: search.offset ?? "", key: "", headers: "", text: "" });
  const [found, setFound] = useState({ ...NOTHING, isLooking: true });
  const [isLive, setLive] = useState(false);
  const [open, dialog] = useAction();
  const { may } = useRights(topic);
  const ending = useRef(null);
  const all = (data?.partitions ?? []).map((part) => part.number);
  const chosen = wanted.partition === "all" ? all : [Number(wanted.partition)];
  const live = chosen.slice(0, LIVE_PARTITIONS_MAX);
  const [tail, tailError, isOpen] = useTail(topic, live, wanted, isLive && data !== null);
  /** From the beginning, or from where the last search has come: then what it found stays. */
  async function look(last = null) {
    ending.current?.abort();
    const own = (ending.current = new AbortController());
    setLive(false);
    setFound({ ...NOTHING, isLooking: true, rows: last?.rows ?? [], looked: last?.looked ?? 0, asked: last?.asked ?? [] });
    const progress = (count) => setFound((now) => ({ ...now, looked: now.looked + count }));
    const begun = last ? Object.values(last.places).map((place) => place.partition) : chosen;
    try {
      const pages = await Promise.all(begun.map((partition) => scan(topic, partition, wanted, last?.places[partition], { signal: own.signal, progress })));
      const { rows, places } = merge(pages, wanted.from === "newest");
      setFound((now) => {
        const known = new Set(now.rows.map((row) => `${row.partition}:${row.offset}`));
        return { ...now, isLooking: false, places, rows: [...now.rows, ...rows.filter((row) => !known.has(`${row.partition}:${row.offset}`))],
          asked: last ? now.asked : pages.slice(0, SAME_MAX).flatMap((page) => page.asked) };
      });
    } catch (problem) {
      if (!own.signal.aborted) setFound((now) => ({ ...now, isLooking: false, error: problem }));
    }
  }
  useEffect(() => {
    if (data) look();
    return () => ending.current?.abort();
  }, [data !== null]);
  // What was found stays, but the search cannot go on with another filter.
  const set = (name) => (event) => {
    // An offset is no time.
    setWanted({ ...wanted, ...(name === "from" && { at: "" }), [name]: event.target.value });
    setFound((now) => ({ ...now, places: {}, asked: [] }));
  };
  const hasMore = Object.keys(found.places).length > 0;
  const stop = () => { ending.current?.abort(); setFound((now) => ({ ...now, isLooking: false })); };
  const rows = isLive ? tail : found.isLooking && !found.rows.length ? null : found.rows;
  const empty = isLive
    ? html`<${Empty} title=${isOpen ? "Waiting for messages…" : "Connecting…"}>Whatever is produced from now on appears here.<//>`
    : html`<${Empty} title=${hasMore ? "No message matches so far" : "No message matches"}>${plural(found.looked, "message")} looked at.<//>`;
  const actions = html`<${Button} tone="primary" may=${may("produce")} onClick=${() => open(produceAction(topic, {}, () => !isLive && look()))}>Produce<//>`;
  return html`<${Page} title="Messages" crumbs=${[["Topics", "#/topics"], [topic, link("topics", topic)]]} actions=${actions}>
    <form class="filters" onSubmit=${(event) => { event.preventDefault(); look(); }}>
      <label>Partition<select value=${wanted.partition} onChange=${set("partition")}><option value="all">all</option>${all.map((n) => html`<option value=${n} selected=${wanted.partition === String(n)}>${n}</option>`)}</select></label>
      <label>From<select value=${wanted.from} onChange=${set("from")}>
        ${[["newest", "the newest"], ["oldest", "the oldest"], ["offset", "an offset"], ["time", "a time"]].map(([key, text]) => html`<option value=${key} selected=${key === wanted.from}>${text}</option>`)}</select></label>
      ${wanted.from === "offset" && html`<label>Offset<input type="number" min="0" value=${wanted.at} onInput=${set("at")} /></label>`}
      ${wanted.from === "time" && html`<label>Time<input type="datetime-local" step="1" value=${wanted.at} onInput=${set("at")} /></label>`}
      <label>Key<input value=${wanted.key} onInput=${set("key")} size="10" /></label>
      <label>Header<input value=${wanted.headers} onInput=${set("headers")} size="14" placeholder="name:value" /></label>
      <label>Text<input value=${wanted.text} onInput=${set("text")} size="14" /></label>
      <button type="submit" class="primary">Read</button>
      <button type="button" aria-pressed=${isLive} onClick=${() => setLive(!isLive)}>${isLive ? "Stop the live tail" : "Live tail"}</button>
    </form>
    <${Failure} error=${error || found.error || (isLive ? tailError : null)} />
    ${isLive && chosen.length > live.length && html`<${Note} tone="warn">The live tail follows the first ${LIVE_PARTITIONS_MAX} partitions; choose one to follow another.<//>`}
    ${!isLive && found.isLooking && html`<p class="loading" role="status">${plural(found.looked, "message")} looked at… <button type="button" class="quiet small" onClick=${stop}>Stop</button></p>`}
    ${rows && html`<div role="log" aria-live="off"><${MessageRows} topic=${topic} rows=${rows} empty=${empty} /></div>`}
    ${!isLive && !found.isLooking && (rows.length > 0 || hasMore) && html`<p class="pager">${plural(rows.length, "message")} shown, ${number(found.looked)} looked at${hasMore ? "; there are more" : ""}
      ${hasMore && html`<button type="button" class="quiet small" onClick=${() => look(found)}>Look further</button>`}</p>`}
    ${!data && !error && html`<${Loading} />`}
    <${Same} line=${commands(topic, wanted, chosen.slice(0, SAME_MAX), isLive)}
      request=${requests(topic, wanted, chosen, isLive, found.asked).map((path) => ({ method: "GET", path }))} />
    ${dialog}
  <//>`;
}
