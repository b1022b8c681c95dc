// One group: what waits, who works, and where it stands in each partition.
import { cli, url, useApi, useRights } from "../lib/api.js";
import { duration, keyText, number, plural } from "../lib/format.js";
import { DueTimes } from "../lib/histogram.js";
import { html } from "../lib/html.js";
import { Badge, Button, Difference, Failure, Loading, Note, Page, Same, Section, Settings, Table, Tiles, link, settingsAction, useAction } from "../lib/parts.js";

const KEYS_SHOWN = 50;

function start(values) {
  if (values.to === "offset") return { offset: Number(values.offset) };
  if (values.to === "time") return { timestamp_ms: new Date(values.time).getTime() || 0 };
  return { at: values.to };
}

function resetAction(topic, group, partitions, done) {
  const path = url`/v1/topics/${topic}/groups/${group}/reset`;
  const body = (values, dry_run) => ({ start: start(values), dry_run, ...(values.partition === "all" ? {} : { partitions: [Number(values.partition)] }) });
  const place = (values) => (values.to === "offset" ? String(values.offset) : values.to === "time" ? new Date(values.time || 0).toISOString() : values.to);
  return {
    title: `Reset ${group}`, button: "Move the group", isDangerous: true,
    text: "Moves the group to another place. Its leases and failed attempts are forgotten. A stream group must have no members.",
    fields: [
      { name: "to", label: "To", options: [["earliest", "the oldest message"], ["latest", "the end"], ["offset", "an offset"], ["time", "a time"]], value: "earliest" },
      { name: "offset", label: "Offset", type: "number", min: 0, value: 0, isShown: (values) => values.to === "offset" },
      { name: "time", label: "Time", type: "datetime-local", isShown: (values) => values.to === "time" },
      { name: "partition", label: "Partition", options: [["all", "all of them"], ...partitions.map((n) => [String(n), String(n)])], value: "all" },
    ],
    dryRun: (values) => ({ method: "POST", path, body: body(values, true) }),
    shown: (answer) => html`<${Difference} rows=${answer.partitions.map((part) => [`partition ${part.partition}`, number(part.from_offset), number(part.to_offset)])} />`,
    build: (values) => ({ method: "POST", path, body: body(values, false), cli: cli("group", "reset", topic, group, "--to", place(values), values.partition === "all" ? [] : ["--partition", values.partition]) }),
    done,
  };
}

/** How the message stands that all others of its key wait for. */
function standing(row) {
  if (row.state === "leased") return html`by <code>${row.holder}</code>, ${duration(row.remaining_ms)} left`;
  return row.remaining_ms ? `in ${duration(row.remaining_ms)}` : "–";
}

function BlockedKeys({ topic, path, isOrdered }) {
  const { data, error } = useApi(`${path}/blocked-keys?limit=${KEYS_SHOWN}`, 5000);
  if (!data || (!data.key_count && !isOrdered)) return html`<${Failure} error=${error} />`;
  const rest = data.key_count > data.keys.length ? `, of which these have the most` : "";
  const aside = data.key_count ? `${plural(data.message_count, "message waits", "messages wait")} behind ${plural(data.key_count, "key")}${rest}` : "";
  return html`<${Section} title="Blocked keys" aside=${aside}>
    <${Failure} error=${error} />
    <${Table} label="Blocked keys" rows=${data.keys} rowKey=${(row) => `${row.partition}/${row.key}`}
      empty=${html`<${Note}>No key is blocked: no message waits for another of its key.<//>`}
      columns=${[
        ["Key", (row) => html`<code>${keyText(row)}</code>`],
        ["Waiting", (row) => number(row.blocked), "right"],
        ["Behind", (row) => html`<a href=${link("topics", topic, "messages", row.partition, row.offset)}>${row.partition}:${row.offset}</a>`, "one"],
        ["Which is", (row) => html`<${Badge} tone=${row.state === "retrying" ? "warn" : "info"}>${row.state}<//> ${standing(row)}`, "one"],
        ["Attempts failed", (row) => number(row.attempts), "right"],
        ["Reason", (row) => row.reason || "–", "preview"],
      ]} />
  <//>`;
}

export default function Group({ topic, group }) {
  const path = url`/v1/topics/${topic}/groups/${group}`;
  const { data, error, reload } = useApi(path, 3000);
  const settings = useApi(data?.kind === "queue" ? `${path}/settings` : null, 15000);
  const { may } = useRights(topic, group);
  const [open, dialog] = useAction();
  const crumbs = [["Topics", "#/topics"], [topic, link("topics", topic)], ["Groups", "#/groups"]];
  if (!data) return html`<${Page} title=${group} crumbs=${crumbs}><${Failure} error=${error} />${!error && html`<${Loading} />`}<//>`;
  const again = () => { reload(); settings.reload(); };
  const isQueue = data.kind === "queue";
  const sum = (name) => data.partitions.reduce((all, part) => all + (part[name] || 0), 0);
  const isPaused = data.partitions.some((part) => part.is_paused);
  const members = new Map();
  for (const part of data.partitions) {
    for (const each of part.members ?? []) {
      const known = members.get(each.name) ?? { name: each.name, leased: 0, last: each.last_poll_ms_ago, is_live: false };
      members.set(each.name, { ...known, leased: known.leased + each.leased, last: Math.min(known.last, each.last_poll_ms_ago), is_live: known.is_live || each.is_live });
    }
  }
  const age = Math.max(0, ...data.partitions.map((part) => part.oldest_age_ms || 0));
  const pause = {
    title: isPaused ? `Resume ${group}` : `Pause ${group}`, button: isPaused ? "Resume" : "Pause",
    text: isPaused ? "Messages are delivered again." : "Nothing is delivered to the group until it is resumed. Leases stay.",
    build: () => ({ method: "PATCH", path, body: { settings: { paused: isPaused ? "" : "1" } }, cli: cli("group", isPaused ? "resume" : "pause", topic, group) }), done: again,
  };
  const alter = () => open(settingsAction({
    title: `Alter ${group}`, settings: settings.data.settings.map((each) => ({ ...each, isOwn: each.origin === "group" })),
    request: (_, changes) => ({ method: "PATCH", path, body: { settings: changes },
      cli: cli("group", "alter", topic, group, Object.entries(changes).flatMap(([name, value]) => (value ? ["--set", `${name}=${value}`] : ["--unset", name]))) }),
    done: again,
  }));
  const remove = {
    title: `Delete ${group}`, button: "Delete the group", isDangerous: true, typed: group,
    text: "Deletes the group with everything it has settled. Messages stay, and a new group of the name begins anew.",
    fields: [{ name: "force", label: "Also while it has live members", type: "checkbox", value: false }],
    build: (values) => ({ method: "DELETE", path: path + (values.force ? "?force=true" : ""), cli: cli("group", "delete", topic, group, values.force ? "--force" : "") }),
    done: () => { location.hash = link("topics", topic); },
  };
  const actions = html`
    ${isQueue && html`<${Button} may=${may("manage")} onClick=${() => open(pause)}>${isPaused ? "Resume" : "Pause"}<//>`}
    <${Button} may=${may("manage")} onClick=${() => open(resetAction(topic, group, data.partitions.map((part) => part.partition), again))}>Reset<//>
    ${isQueue && html`<${Button} may=${may("manage") && settings.data} onClick=${alter}>Alter<//>`}
    <${Button} may=${may("manage")} onClick=${() => open(remove)}>Delete<//>`;
  const columns = [
    ["Partition", (part) => part.partition],
    [isQueue ? "Settled below" : "Committed", (part) => (part.floor >= 0 ? number(part.floor) : "–"), "right"],
    ["Next", (part) => number(part.next_offset), "right"],
    ["Waiting", (part) => number(part.lag), "right"],
    ["Oldest", (part) => (part.oldest_age_ms ? duration(part.oldest_age_ms) : "–"), "right one"],
    ...(isQueue ? ["ready", "leased", "delayed"].map((name) => [name[0].toUpperCase() + name.slice(1), (part) => number(part[name]), "right"]) : []),
    ...(isQueue ? [["Dead", (part) => number(part.dead_total), "right"]] : []),
  ];
  return html`<${Page} title=${group} crumbs=${crumbs} actions=${actions}>
    <${Failure} error=${error} />
    <p><${Badge}>${data.kind}<//>${isPaused && html`<${Badge} tone="warn">paused<//>`}</p>
    ${sum("unburied") > 0 && html`<${Note} tone="bad">${number(sum("unburied"))} dead messages are refused by the dead-letter topic, and tried again.<//>`}
    ${sum("held_back") > 0 && html`<${Note} tone="warn">${number(sum("held_back"))} messages stay for this group although they are beyond the topic's retention.<//>`}
    ${sum("trimmed_total") > 0 && html`<${Note} tone="warn">${number(sum("trimmed_total"))} messages were removed before this group had settled them.<//>`}
    <${Tiles} items=${[
      ["Waiting", number(data.lag), "messages"],
      ["Oldest waits for", age ? duration(age) : "–"],
      ...(isQueue ? [["Ready", number(sum("ready"))], ["Leased", number(sum("leased"))], ["Delayed", number(sum("delayed"))],
        ["Dead", number(sum("dead_total")), "", sum("dead_total") ? "warn" : ""]] : [["Members", number(data.stream?.members.length ?? 0)]]),
    ]} />
    ${isQueue && sum("dead_total") > 0 && html`<p class="pager"><a href=${link("dead-letters", topic, group)}>Look at the dead letters</a></p>`}
    ${isQueue && html`<${Section} title="Members">
      <${Table} label="Members" rows=${[...members.values()]} rowKey=${(row) => row.name} empty=${html`<${Note}>No member polls this group.<//>`}
        columns=${[["Member", (row) => html`<code>${row.name}</code>`], ["", (row) => html`<${Badge} tone=${row.is_live ? "good" : "plain"}>${row.is_live ? "live" : "idle"}<//>`],
          ["Leases", (row) => number(row.leased), "right"], ["Last poll", (row) => `${duration(row.last)} ago`, "right"]]} />
    <//>`}
    ${isQueue && may("consume") && html`<${BlockedKeys} topic=${topic} path=${path} isOrdered=${settings.data?.settings.some((each) => each.name === "ordered" && each.value === "1")} />`}
    ${isQueue && sum("delayed") > 0 && html`<${Section} title="Delayed messages"><${DueTimes} path=${path} /><//>`}
    ${data.stream && html`<${Section} title="Members">
      <${Table} label="Members" rows=${data.stream.members} rowKey=${(row) => row.name} empty=${html`<${Note}>No member reads.<//>`}
        columns=${[["Member", (row) => html`<code>${row.name}</code>`], ["Client", (row) => row.client], ["Partitions", (row) => row.partitions.join(", ")], ["Last heartbeat", (row) => `${duration(row.heard_ms_ago)} ago`, "right"]]} />
      <p class="dim">Generation ${number(data.stream.generation)}, ${data.stream.strategy}. Last rebalance ${duration(data.stream.rebalanced_ms_ago)} ago: ${data.stream.cause}.</p>
    <//>`}
    <${Section} title="Partitions"><${Table} label="Partitions" rows=${data.partitions} rowKey=${(row) => row.partition} columns=${columns}
      href=${(part) => link("topics", topic, "messages") + `?partition=${part.partition}&offset=${Math.max(part.floor, 0)}`} /><//>
    <${Failure} error=${settings.error} />
    ${settings.data && html`<${Settings} settings=${settings.data.settings} />`}
    <${Same} line=${[cli("group", "describe", topic, group), ...(isQueue ? [cli("group", "blocked-keys", topic, group), cli("topic", "due-times", topic, "--group", group)] : [])]}
      request=${["", ...(isQueue ? ["/blocked-keys", "/due-times"] : [])].map((each) => ({ method: "GET", path: path + each }))} />
    ${dialog}
  <//>`;
}
