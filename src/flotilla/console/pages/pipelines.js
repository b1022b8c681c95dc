// Archives and streaming queries that report their progress: how far behind they are, and the lakes that they write.
import { cli, useApi } from "../lib/api.js";
import { ago, bytes, duration, number, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Empty, Failure, Loading, Page, Same, Table, link } from "../lib/parts.js";

export default function Pipelines() {
  const { data, error } = useApi("/v1/pipelines", 5000);
  return html`<${Page} title="Pipelines">
    <${Failure} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Pipelines" rows=${data.pipelines} rowKey=${(row) => row.id}
      empty=${html`<${Empty} title="No pipeline reports its progress"><code>flotilla archive run</code> does, and a streaming query of Spark after <code>import flotilla.spark</code>.<//>`}
      columns=${[
        ["Pipeline", (row) => html`<strong>${row.name || row.id}</strong>`],
        ["Topics", (row) => row.topics.map((topic, at) => html`${at > 0 && ", "}<a href=${link("topics", topic)}>${topic}</a>`)],
        ["Group", (row) => (row.group && row.topics.length === 1 ? html`<a href=${link("topics", row.topics[0], "groups", row.group)}>${row.group}</a>` : row.group || "–")],
        ["Behind", (row) => `${number(row.records_behind)} (${bytes(row.bytes_behind)})`, "right"],
        ["Records a second", (row) => number(row.records_per_second), "right"],
        ["Batch", (row) => number(row.batch), "right"],
        ["Last batch", (row) => `${number(row.batch_records)} in ${duration(row.batch_ms)}`, "right"],
        ["Lake", (row) => (row.lake ? html`${bytes(row.lake_bytes)} in ${plural(row.lake_files, "file")}, ${plural(row.lake_rows, "row")}<br /><code class="prewrap">${row.lake}</code>` : "–"), "wraps"],
        ["Verified", (row) => (row.lake ? (row.lake_verified_ms ? ago(row.lake_verified_ms) : "never") : "–"), "right"],
        ["Reported", (row) => ago(row.reported_ms), "right"],
      ]} />`}
    <${Same} line=${cli("pipeline", "list")} request=${{ method: "GET", path: "/v1/pipelines" }} />
  <//>`;
}
