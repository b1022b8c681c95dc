// The overview: one sentence of state, alarms with what to do about them, rates and lag of the last hour.
import { cli, useApi } from "../lib/api.js";
import { Chart } from "../lib/chart.js";
import { compact, number, plural, rate } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Badge, Empty, Failure, Loading, Page, Same, Section, Tiles } from "../lib/parts.js";

/** What to do about each alarm: [how bad, sentence, command]. */
const FIXES = {
  NODE_DOWN: ["bad", "Start the node again; it catches up by itself. If its disk is lost, start it with an empty one and --join.", "flotilla cluster status"],
  NODE_SILENT: ["warn", "Look at the log and the load of the node.", "flotilla cluster status"],
  NO_LEADER: ["bad", "A partition needs a majority of its replicas. Start the nodes that are down.", "flotilla cluster status --wait"],
  STALE: ["bad", "The metadata need a majority of their nodes. Start the nodes that are down.", "flotilla cluster status --wait"],
  DISK_LOW: ["warn", "Shorten the retention of large topics, or give the node more room, before it refuses new messages.", "flotilla topic alter TOPIC --set retention_ms=1d"],
  DISK_REFUSES: ["bad", "Make room: trim or shorten large topics, or give the node a larger disk. It accepts messages again by itself.", "flotilla topic trim TOPIC PARTITION=OFFSET"],
  UNDER_REPLICATED: ["bad", "Missing replicas are added on nodes that are up. Start or add nodes if there are too few.", "flotilla topic rebalance --dry-run"],
  REPLICAS_TOGETHER: ["warn", "Rebalance: it moves replicas to other machines and zones.", "flotilla topic rebalance --dry-run"],
  LABELS_TOO_FEW: ["warn", "Add nodes on other machines and in other zones, or lower the replication factor.", "flotilla cluster status"],
  ONE_PLACE: ["info", "Nothing needs to be done if that is meant. Otherwise add nodes on other machines or in other zones.", ""],
  REPLICA_DOWN: ["warn", "The replica catches up when its node is back.", "flotilla cluster status"],
  REPLICA_BEHIND: ["info", "The replica catches up by itself.", "flotilla cluster status"],
  REPLICA_FORGETFUL: ["bad", "Check the disk of the node: it lost entries that it had acknowledged.", "flotilla node check DIR"],
  DISK_STALLED: ["bad", "The disk of the node does not answer. Check it, and replace it if need be.", "flotilla cluster drain NODE"],
  CLOCK_OFF: ["warn", "Set the clock of the node, and keep it synchronised.", "timedatectl status"],
  CLOCKS_DISAGREE: ["warn", "Synchronise the clocks of all nodes.", "timedatectl status"],
  TIMING_DIFFERS: ["warn", "Set election_timeout_ms alike on all nodes, and restart them one after the other.", "flotilla config show"],
  RETENTION_BEHIND: ["info", "Retention follows a step of the clock gradually; nothing needs to be done.", ""],
  RETENTION_HELD: ["warn", "Work for the group, move it ahead, or delete it if nobody needs it.", "flotilla group reset TOPIC GROUP --to latest --dry-run"],
  UPGRADE_POSSIBLE: ["info", "Raise the cluster version when no node has to go back to an earlier version.", "flotilla cluster upgrade --dry-run"],
  INSECURE: ["warn", "Switch authentication and TLS on, or keep everybody else out of this network.", "flotilla cert init"],
};
const ORDER = { bad: 0, warn: 1, info: 2 };

export function alarmsOf(cluster, described) {
  const found = [];
  const add = (code, message) => found.push({ code, message });
  if (cluster.is_stale) add("STALE", "No quorum of the cluster's metadata answers.");
  for (const node of cluster.nodes) if (!node.is_alive) add("NODE_DOWN", `Node ${node.node} is down.`);
  if (cluster.without_leader) add("NO_LEADER", `${plural(cluster.without_leader, "partition has", "partitions have")} no leader.`);
  for (const node of described?.silent ?? []) {
    if (cluster.nodes.some((each) => each.node === node && each.is_alive)) add("NODE_SILENT", `Node ${node} does not answer in time.`);
  }
  const seen = new Set();
  for (const node of described?.nodes ?? []) {
    for (const warning of node.warnings) {
      const text = warning.message.charAt(0).toUpperCase() + warning.message.slice(1).replace(/\.?$/, ".");
      if (!seen.has(warning.code + text)) found.push({ code: warning.code, message: text, partitions: warning.partitions });
      seen.add(warning.code + text);
    }
  }
  for (const alarm of found) [alarm.tone, alarm.fix, alarm.command] = FIXES[alarm.code] ?? ["warn", "See the manual of operations.", ""];
  return found.sort((a, b) => ORDER[a.tone] - ORDER[b.tone]);
}

export function sentence(cluster, alarms, lag) {
  const size = `${plural(cluster.nodes.length, "node")}, ${plural(cluster.topics, "topic")}, ${plural(cluster.partitions, "partition")}`;
  const bad = alarms.filter((alarm) => alarm.tone === "bad");
  const waits = lag ? `${plural(lag, "message waits", "messages wait")} in queue groups` : "no message waits";
  if (bad.length) return ["bad", `Needs attention: ${bad[0].message.replace(/\.$/, "")}${bad.length > 1 ? `, and ${bad.length - 1} more` : ""}.`, `${size}; ${waits}.`];
  const warned = alarms.filter((alarm) => alarm.tone === "warn").length;
  if (warned) return ["warn", `Working, with ${plural(warned, "warning")}.`, `${size}; ${waits}.`];
  return ["good", "Healthy.", `${size}; ${waits}.`];
}

function Alarms({ alarms }) {
  return html`<ul class="alarms">${alarms.map((alarm) => html`<li class=${alarm.tone}>
    <p><${Badge} tone=${alarm.tone}>${alarm.code.toLowerCase().replaceAll("_", " ")}<//> <strong>${alarm.message}</strong></p>
    <p>${alarm.fix} ${alarm.command && html`<code>${alarm.command}</code>`}</p>
  </li>`)}</ul>`;
}

const last = (values, count) => values.slice(-count);
const sum = (values) => values.reduce((all, value) => all + value, 0);

export default function Overview({ cluster }) {
  const described = useApi("/v1/cluster/nodes", 10000);
  const history = useApi("/v1/metrics/history", 5000);
  if (!cluster) return html`<${Page} title="Overview"><${Loading} /><//>`;
  const alarms = alarmsOf(cluster, described.data);
  const series = history.data?.series;
  const now = (name) => series?.[name]?.at(-1) ?? 0;
  const [tone, head, rest] = sentence(cluster, alarms, now("lag"));
  const step = (history.data?.step_ms ?? 5000) / 1000;
  // The newest step of a node may still be missing at another one.
  const perSecond = (name) => series && sum(last(series[name] ?? [], 3)) / (3 * step);
  const rates = (name) => series[name].map((count) => count / step);
  return html`<${Page} title="Overview">
    <div class=${"state " + tone} role="status"><span class="dot" aria-hidden="true"></span><p><strong>${head}</strong> ${rest}</p></div>
    ${series && html`<${Tiles} items=${[
      ["Produced", rate(perSecond("produced")), "/s"],
      ["Delivered", rate(perSecond("delivered")), "/s"],
      ["Acknowledged", rate(perSecond("acked")), "/s"],
      ["Waiting", compact(now("lag"))],
      ["Leased", compact(now("leased"))],
      ["Died, last hour", number(sum(series.dead)), "", sum(series.dead) ? "warn" : ""],
    ]} />`}
    <${Failure} error=${history.error} />
    ${series && series.produced.length > 1 && html`<div class="charts">
      <${Chart} label="Messages a second" end=${history.data.end_ms} step=${history.data.step_ms}
        series=${[["produced", rates("produced"), "--series-1"], ["delivered", rates("delivered"), "--series-2"], ["acked", rates("acked"), "--series-3"]]} />
      <${Chart} label="Messages in queue groups" end=${history.data.end_ms} step=${history.data.step_ms}
        series=${[["waiting", series.lag, "--series-4"], ["leased", series.leased, "--series-2"], ["delayed", series.delayed, "--series-3"]]} />
    </div>`}
    ${series && series.produced.length <= 1 && html`<${Empty} title="No history yet">Rates appear after the first ten seconds of a node.<//>`}
    <${Section} title="Alarms">
      <${Failure} error=${described.error} />
      ${alarms.length ? html`<${Alarms} alarms=${alarms} />` : html`<${Empty} title="Nothing to do.">No node warns of anything.<//>`}
    <//>
    <${Same} line=${cli("cluster", "status")} request=${["/v1/cluster", "/v1/cluster/nodes", "/v1/metrics/history"].map((path) => ({ method: "GET", path }))} />
  <//>`;
}
