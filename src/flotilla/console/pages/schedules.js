// Recurring messages and when they come next; delayed messages and when they come due.
import { cli, query, url, useApi, useRights } from "../lib/api.js";
import { duration, number, plural, preview, time } from "../lib/format.js";
import { DueTimes } from "../lib/histogram.js";
import { html, useState } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Loading, Note, Page, Same, Section, Table, link, useAction } from "../lib/parts.js";

const NEXT = 5;

function createAction(done) {
  return {
    title: "Create a schedule", button: "Create",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "topic", label: "Topic", required: true },
      { name: "kind", label: "When", options: [["cron", "by a cron expression"], ["every", "at an interval"]], value: "cron" },
      { name: "cron", label: "Cron expression", value: "0 3 * * *", isShown: (values) => values.kind === "cron", help: "Minute, hour, day, month, weekday." },
      { name: "zone", label: "Time zone", value: "UTC", isShown: (values) => values.kind === "cron" },
      { name: "every", label: "Seconds between two messages", type: "number", min: 1, value: 3600, isShown: (values) => values.kind === "every" },
      { name: "payload", label: "Payload", type: "area", rows: 3 },
    ],
    build: (values) => values.name && values.topic && {
      method: "POST", path: "/v1/schedules",
      body: { name: values.name, topic: values.topic, message: { payload_text: values.payload }, ...(values.kind === "cron" ? { cron: values.cron, time_zone: values.zone } : { every_ms: Number(values.every) * 1000 }) },
      cli: cli("schedule", "create", values.name, "--topic", values.topic, values.kind === "cron" ? ["--cron", values.cron, "--tz", values.zone] : ["--every", `${values.every}s`], values.payload ? ["--payload", values.payload] : []),
    },
    done,
  };
}

const PAGE = 50;

/** The messages themselves, a page at a time, each with what can be done to it. */
function DelayedList({ topic, group, path, may, open }) {
  const [pages, setPages] = useState([""]);
  const asked = { limit: PAGE, after: pages.at(-1) };
  const { data, error, reload } = useApi(path + "/delayed" + query(asked), 10000);
  const place = (row) => `${row.partition}:${row.offset}`;
  const base = (row) => url`/v1/topics/${topic}/partitions/${row.partition}`;
  const deliver = (row) => ({
    title: `Deliver ${place(row)} now`, button: "Deliver now",
    text: row.attempts ? `Group ${group} gets it again at once.` : "Every group of the topic gets it at once.",
    build: () => ({
      method: "POST", path: `${base(row)}/deliver`, body: { offsets: [row.offset], ...(group && { group }) },
      cli: cli("deliver-now", topic, row.partition, row.offset, group ? ["--group", group] : []),
    }),
    done: reload,
  });
  const cancel = (row) => ({
    title: `Cancel ${place(row)}`, button: "Cancel the message", isDangerous: true,
    text: "No group gets it any more. Groups that have settled it keep their result.",
    build: () => ({ method: "POST", path: `${base(row)}/cancel`, body: { offsets: [row.offset] }, cli: cli("cancel", topic, "--partition", row.partition, "--offset", row.offset) }),
    done: reload,
  });
  const columns = [
    ["Message", (row) => html`<a href=${link("topics", topic, "messages", row.partition, row.offset)}>${place(row)}</a>`, "one"],
    ["Comes due", (row) => time(row.due_ms).slice(0, -4), "one"],
    ...(group ? [["Failed attempts", (row) => number(row.attempts), "right"], ["Reason", (row) => row.reason, "preview"]] : []),
    ["", (row) => html`<${Button} may=${may("manage")} onClick=${() => open(deliver(row))}>Deliver now<//>
      <${Button} may=${may("manage")} onClick=${() => open(cancel(row))}>Cancel<//>`, "end wraps"],
  ];
  return html`<${Failure} error=${error} />
    ${data && data.messages.length > 0 && html`<${Table} label="Delayed messages" rows=${data.messages} rowKey=${place} columns=${columns} />`}
    ${data?.is_cut && !data.next && html`<${Note}>So many messages are delayed that not all are listed.<//>`}
    ${data && (data.next || pages.length > 1) && html`<p>
      <button disabled=${pages.length < 2} onClick=${() => setPages(pages.slice(0, -1))}>Earlier</button>${" "}
      <button disabled=${!data.next} onClick=${() => setPages([...pages, data.next])}>Later</button></p>`}
    <${Same} line=${cli("topic", "delayed", topic, group ? ["--group", group] : [], "--limit", PAGE, asked.after ? ["--after", asked.after] : [])} request=${{ method: "GET", path: path + "/delayed" + query(asked) }} />`;
}

/** The delayed messages of the topic that the address names, and of a group of it. */
function Delayed({ topic = "", group = "", open }) {
  const { may } = useRights(topic);
  const history = useApi("/v1/metrics/history", 10000);
  const groups = useApi(topic ? url`/v1/topics/${topic}/groups` : null, 15000);
  const queues = (groups.data?.groups ?? []).filter((each) => each.kind === "queue");
  const delayed = history.data?.series.delayed?.at(-1);
  const go = (next) => { location.hash = "#/schedules" + query(next); };
  function look(event) {
    event.preventDefault();
    go({ topic: event.target.elements.topic.value });
  }
  const path = group ? url`/v1/topics/${topic}/groups/${group}` : url`/v1/topics/${topic}`;
  return html`<${Section} title="Delayed messages" aside=${delayed !== undefined && `${plural(delayed, "message is", "messages are")} delayed in all queue groups`}>
    <form class="filters" onSubmit=${look} key=${topic}>
      <label>Topic<input name="topic" required value=${topic} autocomplete="off" spellcheck="false" /></label>
      ${queues.length > 0 && html`<label>Group<select value=${group} onChange=${(event) => go({ topic, group: event.target.value })}>
        <option value="">whatever groups have done</option>${queues.map((each) => html`<option value=${each.group} selected=${each.group === group}>${each.group}</option>`)}</select></label>`}
      <button type="submit">Look</button>
    </form>
    ${topic && html`<${DueTimes} key=${path} path=${path} /><${Same} line=${cli("topic", "due-times", topic, group ? ["--group", group] : [])} request=${{ method: "GET", path: path + "/due-times" }} /><${DelayedList} key=${path} ...${{ topic, group, path, may, open }} />`}
  <//>`;
}

export default function Schedules({ search }) {
  const { data, error, reload } = useApi("/v1/schedules" + query({ upcoming: NEXT }), 5000);
  const { may } = useRights();
  const [open, dialog] = useAction();
  const act = (verb, row, text) => open({
    title: `${verb[0].toUpperCase() + verb.slice(1)} ${row.name}`, button: verb[0].toUpperCase() + verb.slice(1), text, isDangerous: verb === "delete", typed: verb === "delete" ? row.name : undefined,
    build: () => ({
      ...(verb === "delete" ? { method: "DELETE", path: url`/v1/schedules/${row.name}` } : { method: "POST", path: url`/v1/schedules/${row.name}/${verb}`, body: {} }),
      cli: cli("schedule", verb, row.name),
    }),
    done: reload,
  });
  const create = html`<${Button} tone="primary" may=${may("manage")} onClick=${() => open(createAction(reload))}>Create a schedule<//>`;
  return html`<${Page} title="Scheduled" actions=${create}>
    <p class="dim">The cluster produces these messages by itself.</p>
    <${Failure} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Schedules" rows=${data.schedules} rowKey=${(row) => row.name}
      empty=${html`<${Empty} title="Nothing recurs yet">Create a schedule here, or with <code>flotilla schedule create</code>.<//>`}
      columns=${[
        ["Schedule", (row) => html`<strong>${row.name}</strong>${row.is_paused && html` <${Badge} tone="warn">paused<//>`}${row.error && html`<${Note} tone="bad">${row.error}<//>`}`],
        ["When", (row) => (row.cron ? html`<code>${row.cron}</code> <span class="dim">${row.time_zone || "UTC"}</span>` : `every ${duration(row.every_ms)}`), "one"],
        ["Topic", (row) => html`<a href=${link("topics", row.topic)}>${row.topic}</a>`],
        ["Message", (row) => preview(row.message, 60), "preview"],
        ["Next", (row) => (row.is_paused ? "–" : html`<details><summary>${time(row.upcoming_ms[0]).slice(0, -4)}</summary>${row.upcoming_ms.slice(1).map((at) => html`<div class="dim">${time(at).slice(0, -4)}</div>`)}</details>`), "one"],
        ["Runs", (row) => number(row.runs), "right"],
        ["", (row) => html`<${Button} may=${may("manage")} onClick=${() => act("run", row, "Produces its message now. Its occurrences stay as they are.")}>Run now<//>
          <${Button} may=${may("manage")} onClick=${() => (row.is_paused ? act("resume", row, "It goes on with the next occurrence from now.") : act("pause", row, "Nothing is produced until it is resumed."))}>${row.is_paused ? "Resume" : "Pause"}<//>
          <${Button} may=${may("manage")} onClick=${() => act("delete", row, "Messages that it has produced stay.")}>Delete<//>`, "end wraps"],
      ]} />`}
    <${Same} line=${cli("schedule", "list", "--next", NEXT)} request=${{ method: "GET", path: "/v1/schedules" + query({ upcoming: NEXT }) }} />
    <${Delayed} topic=${search.topic} group=${search.group} open=${open} />
    ${dialog}
  <//>`;
}
