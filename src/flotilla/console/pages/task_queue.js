// One task queue: its workers and its tasks.
import { cli, given, query, url, useApi, useRights } from "../lib/api.js";
import { ago, duration, number, time } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Loading, Note, Page, Same, Section, Table, link, useAction } from "../lib/parts.js";

const SIZE = 20;
const TONES = { ready: "info", leased: "info", delayed: "plain", done: "good", dead: "bad", cancelled: "plain" };

export default function TaskQueue({ queue }) {
  const topic = `tasks.${queue}`;
  const [isAll, setAll] = useState(false);
  const [pages, setPages] = useState([""]);
  const path = "/tasks" + query({ queue, limit: SIZE, all: isAll || undefined, after: pages.at(-1) });
  const { data, error, reload } = useApi(path, 5000);
  const group = useApi(url`/v1/topics/${topic}/groups/workers`, 5000);
  const { may } = useRights(topic);
  const [open, dialog] = useAction();
  const workers = new Map();
  for (const part of group.data?.partitions ?? []) {
    for (const each of part.members) {
      const known = workers.get(each.name);
      workers.set(each.name, { name: each.name, leased: (known?.leased ?? 0) + each.leased, last: Math.min(known?.last ?? Infinity, each.last_poll_ms_ago), is_live: known?.is_live || each.is_live });
    }
  }
  workers.delete("flotilla.http");
  const enqueue = {
    title: `Enqueue a task in ${queue}`, button: "Enqueue",
    fields: [{ name: "type", label: "Type", required: true }, { name: "payload", label: "Payload, JSON", type: "area", rows: 4, value: "{}" }, { name: "delay", label: "Deliver after seconds", type: "number", min: 0, value: 0 }],
    build: (values) => values.type && {
      method: "POST", path: "/tasks", body: { queue, type: values.type, payload: JSON.parse(values.payload), ...(Number(values.delay) ? { delay_ms: Number(values.delay) * 1000 } : {}) },
      cli: cli("task", "enqueue", "--queue", queue, Number(values.delay) ? ["--delay", `${values.delay}s`] : [], values.type, given(values.payload)),
    },
    done: reload,
  };
  const cancel = (task) => open({
    title: "Cancel the task", isDangerous: true, text: html`<code>${task.id}</code> is given to no worker any more. A worker that has it is not notified.`,
    build: () => ({ method: "DELETE", path: url`/tasks/${task.id}`, cli: cli("task", "cancel", task.id) }), done: reload,
  });
  const place = (id) => { const parts = id.split("."); return parts.length > 2 ? link("topics", topic, "messages", parts.at(-2), parts.at(-1)) : "#/tasks"; };
  return html`<${Page} title=${queue} crumbs=${[["Tasks", "#/tasks"]]} actions=${html`<${Button} tone="primary" may=${may("produce")} onClick=${() => open(enqueue)}>Enqueue<//>`}>
    <${Section} title="Workers">
      <${Failure} error=${group.error?.status === 404 ? null : group.error} />
      <${Table} label="Workers" rows=${[...workers.values()]} rowKey=${(row) => row.name} empty=${html`<${Note}>No worker has asked for tasks of this queue lately.<//>`}
        columns=${[["Worker", (row) => html`<code>${row.name}</code>`], ["", (row) => html`<${Badge} tone=${row.is_live ? "good" : "plain"}>${row.is_live ? "live" : "idle"}<//>`],
          ["Tasks held", (row) => number(row.leased), "right"], ["Last asked", (row) => `${duration(row.last)} ago`, "right"]]} />
    <//>
    <${Section} title="Tasks" aside=${html`<label><input type="checkbox" checked=${isAll} onChange=${() => { setAll(!isAll); setPages([""]); }} /> also those that have ended</label>`}>
      <${Failure} error=${error} />
      ${!data && !error && html`<${Loading} />`}
      ${data && html`<${Table} label="Tasks" rows=${data.tasks} rowKey=${(row) => row.id} href=${(row) => place(row.id)}
        empty=${html`<${Empty} title="Nothing to do">All tasks on this page have ended.<//>`}
        columns=${[
          ["Task", (row) => html`<span class="mono">${row.id}</span>`, "one"],
          ["Type", (row) => row.type],
          ["Status", (row) => html`<${Badge} tone=${TONES[row.status]}>${row.status}<//>`],
          ["Attempts", (row) => row.attempts, "right"],
          ["Worker", (row) => row.worker_id ?? "–"],
          ["Created", (row) => (row.created_ms ? html`<span title=${time(row.created_ms, true)}>${ago(row.created_ms)}</span>` : "–"), "one"],
          ["Last error", (row) => row.last_error ?? "", "wide"],
          ["", (row) => html`<${Button} may=${may("manage") && !["done", "dead", "cancelled"].includes(row.status)} why="It has ended, or you may not." onClick=${() => cancel(row)}>Cancel<//>`, "end"],
        ]} />
        <nav class="pager" aria-label="Pages"><button type="button" class="quiet" disabled=${pages.length === 1} onClick=${() => setPages(pages.slice(0, -1))}>← Previous</button>
          <button type="button" class="quiet" disabled=${!data.next} onClick=${() => setPages([...pages, data.next])}>Next →</button></nav>`}
    <//>
    <${Same} line=${cli("task", "list", "--queue", queue, isAll ? "--all" : "")} request=${{ method: "GET", path }} />
    ${dialog}
  <//>`;
}
