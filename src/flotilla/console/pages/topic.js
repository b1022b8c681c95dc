// One topic: its partitions, groups and settings.
import { cli, url, useApi, useMany, useRights } from "../lib/api.js";
import { bytes, duration, number, plural } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Loading, Page, Same, Section, Settings, Table, Tiles, link, settingsAction, useAction } from "../lib/parts.js";
import { produceAction } from "./messages.js";
import { kindOf } from "./topics.js";

const SHOWN = 20;

function alterAction(topic, settings, done) {
  const partitions = topic.partitions.length;
  const replicas = Math.max(0, ...topic.partitions.map((part) => part.replicas.length));
  return settingsAction({
    title: `Alter ${topic.topic}`,
    settings,
    more: [
      { name: "partitions", label: "Partitions", type: "number", min: partitions, value: partitions, help: "The number can only grow." },
      { name: "replicas", label: "Replicas of each partition", type: "number", min: 1, value: replicas, help: "Takes effect in the background." },
    ],
    request: (values, changes) => {
      const grown = Number(values.partitions) === partitions ? 0 : Number(values.partitions);
      const factor = Number(values.replicas) === replicas ? 0 : Number(values.replicas);
      return {
        method: "PATCH",
        path: url`/v1/topics/${topic.topic}`,
        body: { partitions: grown, replication_factor: factor, settings: changes },
        cli: cli("topic", "alter", topic.topic, grown ? ["--partitions", grown] : [], factor ? ["--replication-factor", factor] : [],
          Object.entries(changes).flatMap(([name, value]) => (value ? ["--set", `${name}=${value}`] : ["--unset", name]))),
      };
    },
    done,
  });
}

export function transferAction(topic, part, done) {
  return {
    title: `Transfer the leadership of ${topic}/${part.number}`, button: "Transfer",
    fields: [{ name: "to", label: "New leader", options: [["0", "any other replica"], ...part.replicas.filter((node) => node !== part.leader).map((node) => [String(node), `node ${node}`])], value: "0" }],
    build: (values) => ({
      method: "POST", path: url`/v1/topics/${topic}/partitions/${part.number}/transfer`, body: { to: Number(values.to) },
      cli: cli("topic", "transfer", topic, part.number, Number(values.to) ? ["--to", values.to] : []),
    }),
    done,
  };
}

export function GroupRows({ topic, groups, answers }) {
  const sum = (group, name) => group.partitions.reduce((all, part) => all + (part[name] || 0), 0);
  const of = (name) => (row) => (answers[row.group]?.data?.kind === "queue" ? number(sum(answers[row.group].data, name)) : "–");
  return html`<${Table} label="Groups" rows=${groups} rowKey=${(row) => row.group} href=${(row) => link("topics", topic, "groups", row.group)}
    empty=${html`<${Empty} title="No group reads this topic">The first poll or commit of a group creates it: <code>flotilla consume ${topic} --group billing</code><//>`}
    columns=${[
      ["Group", (row) => row.group],
      ["Kind", (row) => html`<${Badge}>${row.kind}<//>${answers[row.group]?.data?.partitions.some((part) => part.is_paused) ? html`<${Badge} tone="warn">paused<//>` : null}`],
      ["Waiting", (row) => number(answers[row.group]?.data?.lag), "right"],
      ["Oldest", (row) => { const found = answers[row.group]?.data; const age = found && Math.max(0, ...found.partitions.map((part) => part.oldest_age_ms)); return age ? duration(age) : "–"; }, "right"],
      ["Ready", of("ready"), "right"], ["Leased", of("leased"), "right"], ["Delayed", of("delayed"), "right"], ["Dead", of("dead_total"), "right"],
    ]} />`;
}

export default function Topic({ topic }) {
  const { data, error, reload } = useApi(url`/v1/topics/${topic}`);
  const settings = useApi(url`/v1/topics/${topic}/settings`, 15000);
  const groups = useApi(url`/v1/topics/${topic}/groups`, 10000);
  const [shown, setShown] = useState(SHOWN);
  const numbers = (data?.partitions ?? []).slice(0, shown).map((part) => part.number);
  const [parts, reloadParts] = useMany(Object.fromEntries(numbers.map((n) => [n, url`/v1/topics/${topic}/partitions/${n}`])));
  const [described] = useMany(Object.fromEntries((groups.data?.groups ?? []).map(({ group }) => [group, url`/v1/topics/${topic}/groups/${group}`])));
  const { may } = useRights(topic);
  const cluster = useRights();
  const [open, dialog] = useAction();
  const again = () => { reload(); settings.reload(); reloadParts(); };
  if (!data) return html`<${Page} title=${topic} crumbs=${[["Topics", "#/topics"]]}><${Failure} error=${error} />${!error && html`<${Loading} />`}<//>`;
  const known = numbers.map((n) => parts[n]?.data).filter(Boolean);
  const total = (of) => known.reduce((all, part) => all + of(part), 0);
  const path = url`/v1/topics/${topic}`;
  const purge = {
    title: `Purge ${topic}`, button: "Remove all messages", isDangerous: true, typed: topic,
    text: "Removes every message that is stored now, also those that groups have not settled. The topic, its groups and settings stay.",
    build: () => ({ method: "POST", path: path + "/purge", body: {}, cli: cli("topic", "purge", topic, "--yes") }), done: again,
  };
  const remove = {
    title: `Delete ${topic}`, button: "Delete the topic", isDangerous: true, typed: topic,
    text: "Deletes the topic with all its messages and groups. This cannot be undone.",
    build: () => ({ method: "DELETE", path, cli: cli("topic", "delete", topic, "--yes") }), done: () => { location.hash = "#/topics"; },
  };
  const actions = html`
    <a class="button" href=${link("topics", topic, "messages")}>Messages</a>
    <${Button} tone="primary" may=${may("produce")} onClick=${() => open(produceAction(topic, {}, again))}>Produce<//>
    <${Button} may=${may("manage") && settings.data} onClick=${() => open(alterAction(data, settings.data.settings, again))}>Alter<//>
    <${Button} may=${may("manage")} onClick=${() => open(purge)}>Purge<//>
    <${Button} may=${may("manage")} onClick=${() => open(remove)}>Delete<//>`;
  return html`<${Page} title=${topic} crumbs=${[["Topics", "#/topics"]]} actions=${actions}>
    <${Failure} error=${error} />${kindOf(topic)}
    <${Tiles} items=${[
      ["Partitions", number(data.partitions.length)],
      ["Messages kept", known.length === data.partitions.length ? number(total((p) => p.next_offset - p.first_offset)) : "–"],
      ["Size at leaders", known.length === data.partitions.length ? bytes(total((p) => p.size_bytes)) : "–"],
      ["Groups", number(groups.data?.groups.length)],
    ]} />
    <${Section} title="Groups"><${Failure} error=${groups.error} />
      ${groups.data && html`<${GroupRows} topic=${topic} groups=${groups.data.groups} answers=${described} />`}<//>
    <${Section} title="Partitions">
      <${Table} label="Partitions" rows=${data.partitions.slice(0, shown)} rowKey=${(part) => part.number} href=${(part) => link("topics", topic, "messages") + `?partition=${part.number}`}
        columns=${[
          ["Partition", (part) => part.number],
          ["Leader", (part) => (part.leader ? `node ${part.leader}` : html`<${Badge} tone="bad">none<//>`), "one"],
          ["Term", (part) => number(parts[part.number]?.data?.term), "right"],
          ["Replicas", (part) => html`${(parts[part.number]?.data?.replicas ?? part.replicas.map((node) => ({ node, is_alive: true, behind_entries: 0, role: "" }))).map((each) => html`
            <${Badge} tone=${!each.is_alive ? "bad" : each.behind_entries > 0 ? "warn" : "plain"}>${each.node}${each.role === "leader" ? " ★" : ""}${!each.is_alive ? " down" : each.behind_entries > 0 ? ` −${number(each.behind_entries)}` : ""}<//>`)}
            ${part.target && html`<${Badge} tone="info">→ ${part.target.join(", ")}<//>`}`],
          ["First", (part) => number(parts[part.number]?.data?.first_offset), "right"],
          ["Next", (part) => number(parts[part.number]?.data?.next_offset), "right"],
          ["Size", (part) => bytes(parts[part.number]?.data?.size_bytes), "right one"],
          ["", (part) => html`<${Button} may=${cluster.may("operate") && part.replicas.length > 1} onClick=${() => open(transferAction(topic, part, again))}>Transfer<//>`, "end"],
        ]} />
      ${data.partitions.length > shown && html`<div class="pager"><button type="button" onClick=${() => setShown(shown + 100)}>Show more of ${plural(data.partitions.length, "partition")}</button></div>`}
    <//>
    ${settings.data && html`<${Settings} settings=${settings.data.settings} />`}
    <${Same} line=${cli("topic", "describe", topic)} request=${{ method: "GET", path }} />
    ${dialog}
  <//>`;
}
