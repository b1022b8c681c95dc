// The dead letters of one group, by the shape of their reasons.
import { call, cli, query, url, useApi, useRights } from "../lib/api.js";
import { ago, number, plural, preview } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { Badge, Button, Copy, Empty, Failure, Loading, Note, Page, Same, Section, Table, link, useAction } from "../lib/parts.js";

const LIST_MAX = 1000;
/** A request takes this long at most, so that a slow redrive shows how far it is. */
const CHUNK_S = 5;

function selectionAction({ verb, topic, group, row, done }) {
  const path = url`/v1/topics/${topic}/groups/${group}/dead-letters/${verb}`;
  const isRedrive = verb === "redrive";
  const body = (values, more) => ({
    ...(row ? { fingerprint: row.fingerprint } : {}), limit: Number(values.limit), ...more,
    ...(Number(values.rate) ? { rate: Number(values.rate) } : {}), ...(isRedrive && values.force ? { force: true } : {}),
  });
  const counted = (found) => `${plural(found.done, "letter")}${found.refused ? `, ${number(found.refused)} refused because they were redriven three times` : ""}`;
  return {
    title: isRedrive ? "Redrive dead letters" : "Purge dead letters",
    button: isRedrive ? "Redrive" : "Discard for good", isDangerous: !isRedrive,
    text: html`${row ? html`Of the shape <q>${row.shape || "(no reason)"}</q>: ${plural(row.letters.length, "letter")}.` : "All letters of this group."}
      ${isRedrive ? ` They are produced to ${topic} again, with all their fields.` : " They are discarded."}`,
    fields: [
      { name: "limit", label: "Letters at most", type: "number", min: 1, value: row ? row.letters.length : LIST_MAX },
      { name: "rate", label: "Letters a second at most", type: "number", min: 0, value: 0, help: "0: as fast as it goes." },
      ...(isRedrive ? [{ name: "force", label: "Also letters that were redriven three times before", type: "checkbox", value: false }] : []),
    ],
    dryRun: (values) => ({ method: "POST", path, body: body(values, { dry_run: true }) }),
    shown: (found) => html`<${Note}>A dry run: ${counted(found)} would be ${isRedrive ? "redriven" : "purged"}. Nothing was changed.<//>`,
    build: (values) => ({
      method: "POST", path, body: body(values),
      cli: cli("dlq", verb, topic, "--group", group, row ? ["--fingerprint", row.fingerprint] : [], "--limit", values.limit,
        Number(values.rate) ? ["--rate", values.rate] : [], values.force ? "--force" : "", isRedrive ? "" : "--yes"),
    }),
    run: async (values, request, progress) => {
      const total = { done: 0, refused: 0 };
      const chunk = Number(values.rate) ? Number(values.rate) * CHUNK_S : Number(values.limit);
      for (let left = Number(values.limit); left > 0;) {
        const wanted = Math.min(chunk, left);
        const found = await call("POST", path, body(values, { limit: wanted }));
        total.done += found.done;
        total.refused = found.refused;
        left -= wanted;
        progress(`${counted(total)} so far`);
        if (found.done < wanted) break;
      }
      return total;
    },
    done: (total) => done(`${counted(total)} ${isRedrive ? "redriven" : "purged"}.`),
  };
}

export default function DeadLetterGroup({ topic, group }) {
  const path = url`/v1/topics/${topic}/groups/${group}/dead-letters`;
  const { data, error, reload } = useApi(path + query({ limit: LIST_MAX }), 15000);
  const [opened, setOpened] = useState(null);
  const [told, setTold] = useState("");
  const [open, dialog] = useAction();
  const { may } = useRights(topic, group);
  const ofTopic = useRights(topic);
  const redrives = may("manage") && ofTopic.may("produce");
  const rows = new Map();
  for (const letter of data?.dead_letters ?? []) {
    const row = rows.get(letter.fingerprint) ?? { fingerprint: letter.fingerprint, shape: letter.shape, letters: [] };
    row.letters.push(letter);
    rows.set(letter.fingerprint, row);
  }
  const sorted = [...rows.values()].sort((a, b) => b.letters.length - a.letters.length);
  const act = (verb, row) => open(selectionAction({ verb, topic, group, row, done: (text) => { setTold(text); reload(); } }));
  const chosen = rows.get(opened);
  const actions = html`
    <${Button} may=${redrives && sorted.length > 0} why="There is nothing to redrive, or you may not." onClick=${() => act("redrive", null)}>Redrive all<//>
    <${Button} may=${may("manage") && sorted.length > 0} why="There is nothing to purge, or you may not." onClick=${() => act("purge", null)}>Purge all<//>`;
  return html`<${Page} title=${`Dead letters of ${group}`} crumbs=${[["Dead letters", "#/dead-letters"], [topic, link("topics", topic)]]} actions=${actions}>
    ${told && html`<${Note} tone="good">${told}<//>`}
    <${Failure} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data?.dead_letters.length >= LIST_MAX && html`<${Note} tone="warn">The oldest ${number(LIST_MAX)} letters are shown; there are more.<//>`}
    ${data && html`<${Table} label="Reasons" rows=${sorted} rowKey=${(row) => row.fingerprint}
      empty=${html`<${Empty} title="No dead letters">All were redriven or purged, or none has died.<//>`}
      columns=${[
        ["Letters", (row) => html`<strong>${number(row.letters.length)}</strong>`, "right"],
        ["Reason", (row) => html`<button type="button" class="quiet reason" aria-expanded=${opened === row.fingerprint} onClick=${() => setOpened(opened === row.fingerprint ? null : row.fingerprint)}>${row.shape || "(no reason)"}</button>`, "wide"],
        ["Fingerprint", (row) => html`<code class="dim">${row.fingerprint}</code>`],
        ["Last", (row) => ago(Math.max(...row.letters.map((letter) => letter.died_ms))), "one"],
        ["", (row) => html`<${Button} may=${redrives} onClick=${() => act("redrive", row)}>Redrive<//> <${Button} may=${may("manage")} onClick=${() => act("purge", row)}>Purge<//>`, "end"],
      ]} />`}
    ${chosen && html`<${Section} title=${`Samples: ${chosen.shape || "(no reason)"}`}>
      <${Table} label="Samples" rows=${chosen.letters.slice(0, 20)} rowKey=${(letter) => `${letter.partition}:${letter.offset}`}
        href=${(letter) => link("topics", letter.topic || topic, "messages", letter.origin_partition, letter.origin_offset)}
        columns=${[
          ["Message", (letter) => html`<span class="mono">${letter.origin_partition}:${letter.origin_offset}</span>`, "one"],
          ["Died", (letter) => ago(letter.died_ms), "one"],
          ["Attempts", (letter) => letter.attempts, "right"],
          ["Redriven", (letter) => (letter.redriven ? html`<${Badge} tone="warn">${letter.redriven}×<//>` : "–")],
          ["Reason", (letter) => html`<span class="prewrap">${letter.reason}</span> ${letter.reason && html`<${Copy} text=${letter.reason} />`}`, "wide"],
          ["Payload", (letter) => preview(letter, 100), "preview"],
        ]} />
    <//>`}
    <${Same} line=${cli("dlq", "list", topic, "--group", group)} request=${{ method: "GET", path }} />
    ${dialog}
  <//>`;
}
