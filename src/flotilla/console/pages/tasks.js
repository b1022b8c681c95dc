// Task queues, and how much is in each.
import { cli, useApi } from "../lib/api.js";
import { duration, number } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Empty, Failure, Loading, Page, Same, Table, Tiles, link } from "../lib/parts.js";

const COUNTS = ["ready", "leased", "delayed", "done", "dead", "cancelled"];

export default function Tasks() {
  const { data, error } = useApi("/stats", 5000);
  return html`<${Page} title="Tasks">
    <${Failure} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Tiles} items=${COUNTS.map((name) => [name[0].toUpperCase() + name.slice(1), number(data.total[name])])} />
      <br />
      <${Table} label="Queues" rows=${data.queues} rowKey=${(row) => row.queue} href=${(row) => link("tasks", row.queue)}
        empty=${html`<${Empty} title="No task queue yet">The first task makes its queue: <code>flotilla task enqueue resize '{"image": 7}'</code><//>`}
        columns=${[["Queue", (row) => row.queue], ["Workers", (row) => number(row.workers), "right"],
          ...COUNTS.map((name) => [name[0].toUpperCase() + name.slice(1), (row) => number(row[name]), "right"]),
          ["Oldest", (row) => (row.oldest_age_ms ? duration(row.oldest_age_ms) : "–"), "right one"]]} />`}
    <${Same} line=${cli("task", "stats")} request=${{ method: "GET", path: "/stats" }} />
  <//>`;
}
