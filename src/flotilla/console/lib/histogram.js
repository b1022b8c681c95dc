// Delayed messages by the time in which they come due.
import { useApi } from "./api.js";
import { compact, number } from "./format.js";
import { html } from "./html.js";
import { Empty, Failure, Note } from "./parts.js";

const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]];

function span(ms) {
  const [unit, size] = UNITS.find(([, each]) => ms >= each && ms % each === 0);
  return `${ms / size} ${unit}`;
}

function label(edges, at) {
  if (at === 0) return `within ${span(edges[0])}`;
  return at < edges.length ? `${span(edges[at - 1])} to ${span(edges[at])}` : `after ${span(edges[at - 1])}`;
}

export function DueTimes({ path }) {
  const { data, error } = useApi(path + "/due-times", 10000);
  if (!data) return html`<${Failure} error=${error} />`;
  if (!data.delayed) return html`<${Empty} title="No message waits for a time." />`;
  const last = data.counts.findLastIndex((count) => count > 0);
  const most = Math.max(...data.counts);
  const shown = data.is_estimated ? (count) => `about ${compact(count)}` : number;
  return html`<${Failure} error=${error} />
    ${data.is_estimated && html`<${Note}>So many messages are delayed that only some were looked at: the numbers are estimates.<//>`}
    <div class="scroll" tabindex="0" role="group" aria-label="Due times"><table class="histogram">
      <thead><tr><th scope="col">Comes due</th><th scope="col" class="right">Messages</th><th scope="col"><span class="unseen">Share</span></th></tr></thead>
      <tbody>${data.counts.slice(0, last + 1).map((count, at) => html`<tr>
        <th scope="row">${label(data.edges_ms, at)}</th><td class="right one">${shown(count)}</td>
        <td aria-hidden="true"><i style=${{ width: `${(100 * count) / most}%` }}></i></td>
      </tr>`)}</tbody>
    </table></div>`;
}
