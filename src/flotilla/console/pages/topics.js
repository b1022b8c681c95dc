// All topics by pages, and a new one.
import { cli, query, useApi, useRights } from "../lib/api.js";
import { number, plural } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Loading, Page, Same, Search, Table, link, readPairs, useAction, usePages } from "../lib/parts.js";

const SIZE = 50;

export function createTopic(done) {
  const settings = (values) => readPairs(values.settings);
  return {
    title: "Create a topic",
    button: "Create",
    fields: [
      { name: "topic", label: "Name", required: true, help: "Letters, digits, dots, _ and -." },
      { name: "partitions", label: "Partitions", type: "number", min: 0, value: 0, help: "0: the cluster's default." },
      { name: "replication", label: "Replicas of each partition", type: "number", min: 0, value: 0, help: "0: the cluster's default." },
      { name: "settings", label: "Settings, one name=value a line", type: "area", rows: 3, placeholder: "retention_ms=7d" },
    ],
    build: (values) => values.topic && {
      method: "POST",
      path: "/v1/topics",
      body: { topic: values.topic, partitions: Number(values.partitions), replication_factor: Number(values.replication), settings: settings(values) },
      cli: cli("topic", "create", values.topic, Number(values.partitions) ? ["--partitions", values.partitions] : [],
        Number(values.replication) ? ["--replication-factor", values.replication] : [],
        Object.entries(settings(values)).flatMap(([name, value]) => ["--set", `${name}=${value}`])),
    },
    done,
  };
}

export const kindOf = (name) => (name.startsWith("dlq.") ? html` <${Badge} tone="warn">dead letters<//>` : name.startsWith("tasks.") ? html` <${Badge}>tasks<//>` : null);

export default function Topics() {
  const [text, setText] = useState("");
  const [controls, after] = usePages(text);
  const path = "/v1/topics" + query({ limit: SIZE, after, search: text });
  const { data, error, reload } = useApi(path, 10000);
  const { may } = useRights();
  const [open, dialog] = useAction();
  const create = () => open(createTopic((made) => { location.hash = link("topics", made.topic); reload(); }));
  const actions = html`<${Button} tone="primary" may=${may("manage")} onClick=${create}>Create a topic<//>`;
  const empty = text
    ? html`<${Empty} title=${`No topic has “${text}” in its name.`} />`
    : html`<${Empty} title="There are no topics yet">Create one here, or produce to it: <code>echo hello | flotilla produce orders</code><//>`;
  return html`<${Page} title="Topics" actions=${actions}>
    <div class="filters"><${Search} label="Find a topic" value=${text} change=${setText} placeholder="Find by part of the name" />
      ${data && html`<span class="dim">${plural(data.total, "topic")}</span>`}</div>
    <${Failure} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Topics" rows=${data.topics} rowKey=${(topic) => topic.topic} href=${(topic) => link("topics", topic.topic)} empty=${empty}
      columns=${[
        ["Topic", (topic) => topic.topic],
        ["", (topic) => kindOf(topic.topic)],
        ["Partitions", (topic) => number(topic.partitions.length), "right"],
        ["Replicas", (topic) => Math.max(0, ...topic.partitions.map((part) => part.replicas.length)), "right"],
        ["Leaders", (topic) => {
          const lost = topic.partitions.filter((part) => !part.leader).length;
          const moving = topic.partitions.filter((part) => part.target).length;
          return html`${lost ? html`<${Badge} tone="bad">${lost} without<//>` : html`<${Badge} tone="good">all<//>`}${moving ? html`<${Badge} tone="info">${moving} moving<//>` : null}`;
        }],
        ["Own settings", (topic) => html`<span class="dim">${Object.keys(topic.settings).filter((name) => name !== "replication_factor").sort().join(", ") || "–"}</span>`],
      ]} />
      ${controls(data.topics.at(-1)?.topic, data.topics.length, data.total, SIZE)}`}
    <${Same} line=${cli("topic", "list")} request=${{ method: "GET", path }} />
    ${dialog}
  <//>`;
}
