// The cluster: nodes and their disks, moves, and the replicas of every partition.
import { cli, query, url, useApi, useMany, useRights } from "../lib/api.js";
import { bytes, duration, number, plural } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Loading, Note, Page, Same, Search, Section, Table, link, useAction, usePages } from "../lib/parts.js";
import { transferAction } from "./topic.js";

const SIZE = 10;
/** Partitions of one topic that this page shows; the topic has all of them. */
const PARTS_MAX = 12;

function Disk({ found }) {
  if (!found?.disk_total_bytes) return "–";
  const used = 1 - found.disk_free_bytes / found.disk_total_bytes;
  return html`<span class=${"meter" + (used > 0.9 ? " warn" : "")} role="img" aria-label=${`${Math.round(100 * used)} % of the disk is used`}><i style=${{ width: `${100 * used}%` }}></i></span>${bytes(found.disk_free_bytes)} free`;
}

const Moves = ({ moves, more = [] }) => html`<${Table} label="Moves" rows=${moves} rowKey=${(row) => `${row.topic}/${row.partition}`}
  columns=${[["Partition", (row) => html`${row.topic}/${row.partition}`], ["From", (row) => row.replicas.join(", ")], ["To", (row) => row.target.join(", ")], ...more]} />`;

/** Moves whose leaders are asked how much is copied. */
const ASKED_MAX = 8;

/** The share of a partition that its slowest new replica has, as `flotilla cluster status` shows it. */
function Copied({ move, part }) {
  if (!part) return "–";
  const behind = Object.fromEntries(part.replicas.map((each) => [each.node, each.behind_bytes]));
  const missing = move.target.filter((node) => !move.replicas.includes(node)).map((node) => behind[node] ?? part.size_bytes);
  const share = Math.round(100 * (1 - Math.max(0, ...missing) / Math.max(1, part.size_bytes)));
  return html`<span class="meter" aria-hidden="true"><i style=${{ width: `${share}%` }}></i></span>${share} %`;
}

function MovesNow({ moves }) {
  const key = (row) => `${row.topic}/${row.partition}`;
  const [answers] = useMany(Object.fromEntries(moves.slice(0, ASKED_MAX).map((row) => [key(row), url`/v1/topics/${row.topic}/partitions/${row.partition}`])), 2000);
  return html`<${Moves} moves=${moves} more=${[["Copied", (row) => html`<${Copied} move=${row} part=${answers[key(row)]?.data} />`, "one"]]} />`;
}

function Partitions({ open, may }) {
  const [text, setText] = useState("");
  const [controls, after] = usePages(text);
  const { data, error } = useApi("/v1/topics" + query({ limit: SIZE, after, search: text }), 10000);
  const rows = (data?.topics ?? []).flatMap((topic) => topic.partitions.slice(0, PARTS_MAX).map((part) => ({ ...part, topic: topic.topic })));
  const [answers, again] = useMany(Object.fromEntries(rows.map((row) => [`${row.topic}/${row.number}`, url`/v1/topics/${row.topic}/partitions/${row.number}`])), 10000);
  const replicas = (row) => answers[`${row.topic}/${row.number}`]?.data?.replicas ?? row.replicas.map((node) => ({ node, role: node === row.leader ? "leader" : "…", is_alive: true, behind_entries: 0 }));
  return html`<${Section} title="Partitions" aside=${html`<${Search} label="Find partitions" value=${text} change=${setText} placeholder="Find by part of the topic" />`}>
    <${Failure} error=${error} />
    ${data && html`<${Table} label="Partitions of all topics" rows=${rows} rowKey=${(row) => `${row.topic}/${row.number}`} href=${(row) => link("topics", row.topic)}
      empty=${html`<${Empty} title="No partition matches." />`}
      columns=${[
        ["Partition", (row) => `${row.topic}/${row.number}`],
        ["Term", (row) => number(answers[`${row.topic}/${row.number}`]?.data?.term), "right"],
        ["Replicas", (row) => replicas(row).map((each) => html`<${Badge} tone=${!each.is_alive ? "bad" : each.behind_entries ? "warn" : each.role === "leader" ? "good" : "plain"}>
          node ${each.node} ${each.is_alive ? each.role : "down"}${each.behind_entries ? `, ${number(each.behind_entries)} behind` : ""}<//>`)],
        ["Size", (row) => bytes(answers[`${row.topic}/${row.number}`]?.data?.size_bytes), "right one"],
        ["", (row) => html`<${Button} may=${may("operate") && row.replicas.length > 1} onClick=${() => open(transferAction(row.topic, row, again))}>Transfer<//>`, "end"],
      ]} />
      ${controls(data.topics.at(-1)?.topic, data.topics.length, data.total, SIZE)}`}
  <//>`;
}

/** Clients of each node that this page shows. */
const CLIENTS_MAX = 100;

/** Who is connected: asked for when it is opened. */
function Clients({ connections }) {
  const [isOpen, setOpen] = useState(false);
  const path = "/v1/cluster/clients" + query({ limit: CLIENTS_MAX });
  const { data, error } = useApi(isOpen ? path : null, 5000);
  const aside = [connections !== undefined && `${plural(connections, "client is", "clients are")} connected over TCP, HTTP and gRPC`].filter(Boolean);
  return html`<${Section} title="Connected clients" aside=${aside}>
    <details class="more" open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
      <summary>Who is connected</summary>
      <${Failure} error=${error} />
      ${isOpen && !data && !error && html`<${Loading} />`}
      ${data && html`<${Table} label="Connected clients" rows=${data.clients} rowKey=${(row) => `${row.node} ${row.endpoint} ${row.address}`}
        empty=${html`<${Empty} title="Nobody is connected." />`}
        columns=${[
          ["Node", (row) => row.node, "one"],
          ["Endpoint", (row) => ENDPOINTS[row.endpoint] ?? row.endpoint, "one"],
          ["Name", (row) => row.name || "–", "preview"],
          ["Address", (row) => html`<span class="mono">${row.address || "–"}</span>`, "one"],
          ["User", (row) => row.principal || "–"],
          ["Connected for", (row) => duration(row.connected_ms), "one"],
          ["In flight", (row) => number(row.in_flight), "right"],
        ]} />
        ${data.total > data.clients.length && html`<p class="pager">${number(data.clients.length)} of ${plural(data.total, "client")} shown</p>`}
        ${data.silent.length > 0 && html`<${Note} tone="warn">Without an answer: node ${data.silent.join(", ")}.<//>`}
        <p class="dim">Over gRPC a client is known while it has a call in flight. Nodes connect to each other as clients, too.</p>
        <${Same} line=${cli("cluster", "clients", "--limit", CLIENTS_MAX)} request=${{ method: "GET", path }} />`}
    </details>
  <//>`;
}
const ENDPOINTS = { tcp: "TCP", http: "HTTP", grpc: "gRPC" };

export default function ClusterPage({ cluster }) {
  const described = useApi("/v1/cluster/nodes", 5000);
  const connections = useApi("/v1/metrics/history", 10000).data?.series.connections?.at(-1);
  const { may } = useRights();
  const [open, dialog] = useAction();
  const [told, setTold] = useState("");
  if (!cluster) return html`<${Page} title="Cluster"><${Loading} /><//>`;
  const known = Object.fromEntries((described.data?.nodes ?? []).map((each) => [each.node, each]));
  const drain = (node) => {
    const verb = node.state === "active" ? "drain" : "undrain";
    open({
      title: verb === "drain" ? `Drain node ${node.node}` : `Keep node ${node.node}`, button: verb === "drain" ? "Drain" : "Keep it",
      text: verb === "drain" ? `Moves its ${plural(node.replicas, "replica")} to other nodes, and places no new ones on it.` : "Ends the draining. Replicas that have moved stay where they are.",
      build: () => ({ method: "POST", path: `/v1/cluster/nodes/${node.node}/${verb}`, body: {}, cli: cli("cluster", verb, node.node) }),
      done: () => setTold(verb === "drain" ? `Node ${node.node} drains.` : `Node ${node.node} stays.`),
    });
  };
  const rebalance = () => open({
    title: "Rebalance", button: "Move them",
    text: "Spreads replicas and leaders evenly over the nodes, with the fewest moves. A dry run shows the plan.",
    fields: [{ name: "topics", label: "Topics, separated by blanks", help: "Empty: all of them." }],
    dryRun: (values) => ({ method: "POST", path: "/v1/cluster/rebalance", body: { topics: values.topics.split(/\s+/).filter(Boolean), dry_run: true } }),
    shown: (answer) => (answer.moves.length ? html`<p>${plural(answer.moves.length, "partition")} would move:</p><${Moves} moves=${answer.moves} />` : html`<${Note} tone="good">Nothing to move: replicas and leaders are balanced.<//>`),
    build: (values) => ({ method: "POST", path: "/v1/cluster/rebalance", body: { topics: values.topics.split(/\s+/).filter(Boolean) }, cli: cli("topic", "rebalance", values.topics.split(/\s+/), "--no-wait") }),
    done: (answer) => setTold(answer.moves.length ? `${plural(answer.moves.length, "partition moves", "partitions move")}.` : "Nothing to move: replicas and leaders are balanced."),
  });
  const stop = () => open({
    title: "Cancel moves", isDangerous: true, text: "Moving partitions stay where they are, unless they have arrived.",
    build: () => ({ method: "POST", path: "/v1/cluster/cancel-moves", body: {}, cli: cli("topic", "rebalance", "--cancel") }), done: () => setTold("Moves were cancelled."),
  });
  return html`<${Page} title="Cluster" actions=${html`<${Button} may=${may("operate")} onClick=${rebalance}>Rebalance<//>`}>
    ${told && html`<${Note} tone="good">${told}<//>`}
    <${Failure} error=${described.error} />
    <${Section} title="Nodes" aside=${cluster.cluster_version && `Cluster version ${cluster.cluster_version}`}>
      <${Table} label="Nodes" rows=${cluster.nodes} rowKey=${(row) => row.node}
        columns=${[
          ["Node", (row) => html`<strong>${row.node}</strong>`],
          ["State", (row) => html`<${Badge} tone=${row.is_alive ? (row.state === "active" ? "good" : "warn") : "bad"}>${row.is_alive ? row.state : "down"}<//>${row.node === cluster.controller && html`<${Badge} tone="info">controller<//>`}`, "one"],
          ["Leads", (row) => number(row.leads), "right"],
          ["Replicas", (row) => number(row.replicas), "right"],
          ["Disk", (row) => html`<${Disk} found=${known[row.node]} />`, "one"],
          ["Runs for", (row) => duration(known[row.node]?.uptime_ms), "one"],
          ["Version", (row) => row.version || "–", "one"],
          ...["machine", "zone"].filter((label) => cluster.nodes.some((row) => row[label])).map((label) => [label === "zone" ? "Zone" : "Machine", (row) => row[label] || "–", "one"]),
          ["Clients", (row) => html`<code>${row.client}</code>`, "one"],
          ["", (row) => html`<${Button} may=${may("operate")} onClick=${() => drain(row)}>${row.state === "active" ? "Drain" : "Keep"}<//>`, "end"],
        ]} />
    <//>
    ${cluster.moving > 0 && html`<${Section} title=${`${plural(cluster.moving, "partition moves", "partitions move")}`} aside=${html`<${Button} may=${may("operate")} onClick=${stop}>Cancel<//>`}><${MovesNow} moves=${cluster.moves} /><//>`}
    <${Partitions} open=${open} may=${may} />
    <${Clients} connections=${connections} />
    <${Same} line=${cli("cluster", "status")} request=${{ method: "GET", path: "/v1/cluster" }} />
    ${dialog}
  <//>`;
}
