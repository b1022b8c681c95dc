// One message: what it is, and its life in every group.
import { cli, url, useApi, useMany, useRights } from "../lib/api.js";
import { BINARY, asText, bytes, decoded, duration, keyText, time } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Badge, Button, Copy, Empty, Failure, Loading, Page, Same, Section, link, useAction } from "../lib/parts.js";
import { produceAction } from "./messages.js";

const TONES = { ready: "info", leased: "info", delayed: "plain", retrying: "warn", blocked: "warn", acked: "good", settled: "plain", dead: "bad", dying: "bad", dropped: "bad", expired: "warn", cancelled: "plain" };
const MOMENT = /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z/g;
const local = (text) => text.replace(MOMENT, (found) => time(Date.parse(found)));
const isBad = (text) => /failed|was the last|expired|rejected|dead/.test(text);

function Step({ text, isNext }) {
  const found = text.match(/^(\d{4}-\d{2}-\d{2}T[\d:.]+Z) (.*)$/s);
  const [at, rest] = found ? [Date.parse(found[1]), found[2]] : [0, text];
  return html`<li class=${isNext ? "next" : isBad(rest) ? "bad" : ""}>${at > 0 && html`<time datetime=${new Date(at).toISOString()}>${time(at)}</time>`}${local(rest)}</li>`;
}

function Life({ topic, partition, offset, group, found, error, open, again, produced }) {
  const { may } = useRights(topic, group);
  const path = url`/v1/topics/${topic}/groups/${group}/partitions/${partition}/messages/${offset}`;
  const settle = (verb, title, text, fields = []) => ({
    title: `${title} for ${group}`, button: title, text, fields, isDangerous: verb === "reject",
    build: (values) => ({ method: "POST", path: `${path}/${verb}`, body: values,
      cli: cli(verb, topic, partition, offset, "--group", group, values.reason ? ["--reason", values.reason] : []) }),
    done: again,
  });
  const release = settle("release", "Release", html`Takes the message from <code>${found?.holder}</code> and delivers it again at once. No attempt is counted.`);
  const reject = settle("reject", "Reject", html`Takes the message from <code>${found?.holder}</code> and moves it to the dead letters.`,
    [{ name: "reason", label: "Reason", value: "rejected in the console" }]);
  const isHeld = found?.state === "leased";
  return html`<div class="life">
    <div class="head"><h2><a href=${link("topics", topic, "groups", group)}>${group}</a> ${found && html`<${Badge} tone=${TONES[found.state] || "plain"}>${found.state}<//>`}
      ${found?.attempts > 0 && html`<${Badge} tone="warn">${found.attempts} failed<//>`}</h2>
      <div class="aside">
        <${Button} may=${isHeld && may("consume")} why=${isHeld ? undefined : "The message is not leased."} onClick=${() => open(release)}>Release<//>
        <${Button} may=${isHeld && may("consume")} why=${isHeld ? undefined : "The message is not leased."} onClick=${() => open(reject)}>Reject<//>
      </div></div>
    ${error?.status === 404 ? html`<p class="dim">No member of this group has asked this partition yet.</p>` : html`<${Failure} error=${error} />`}
    ${found && html`<ol class="timeline" aria-label=${`Life in ${group}`}>
      ${produced > 0 && !found.history.some((line) => /produced|stored/.test(line)) && html`<${Step} text=${`${new Date(produced).toISOString()} produced (by its own timestamp)`} />`}
      ${found.history.map((line) => html`<${Step} text=${line} />`)}
      ${found.holder && html`<li>leased by <strong>${found.holder}</strong>${found.remaining_ms > 0 && ` for another ${duration(found.remaining_ms)}`}</li>`}
      ${found.reason && !found.history.some((line) => line.includes(found.reason)) && html`<li class="bad"><pre>${found.reason}</pre></li>`}
      ${found.next && html`<${Step} isNext text=${`next${found.remaining_ms ? ` in ${duration(found.remaining_ms)}` : ""}: ${found.next}`} />`}
    </ol>`}
    <${Same} line=${cli("why", topic, partition, offset, "--group", group)} request=${{ method: "GET", path }} />
  </div>`;
}

export default function Message({ topic, partition, offset }) {
  const base = url`/v1/topics/${topic}/partitions/${partition}`;
  const { data, error } = useApi(`${base}/records?offset=${encodeURIComponent(offset)}&limit=1`, 0);
  const groups = useApi(url`/v1/topics/${topic}/groups`, 0);
  const queues = (groups.data?.groups ?? []).filter((each) => each.kind === "queue").map((each) => each.group);
  const [lives, again] = useMany(Object.fromEntries(queues.map((group) => [group, url`/v1/topics/${topic}/groups/${group}/partitions/${partition}/messages/${offset}`])), 3000);
  const [open, dialog] = useAction();
  const { may } = useRights(topic);
  const record = data?.records.find((each) => String(each.offset) === offset);
  const content = record && decoded(record);
  const text = record && (record.content_type in BINARY ? null : asText(record.payload));
  const copied = record && { payload: text ?? record.payload, kind: { bytes: "base64" }[content.kind] ?? content.kind.toLowerCase(), key: keyText(record), priority: record.priority,
    headers: (record.headers ?? []).map((pair) => `${pair.name}=${asText(pair.value) ?? ""}`).join("\n") };
  const cancel = {
    title: `Cancel ${partition}:${offset}`, button: "Cancel the message", isDangerous: true,
    text: "No group gets it any more. Groups that have settled it keep their result.",
    build: () => ({ method: "POST", path: `${base}/cancel`, body: { offsets: [Number(offset)] }, cli: cli("cancel", topic, "--partition", partition, "--offset", offset) }),
    done: again,
  };
  const resend = () => open(produceAction(topic, copied, (answer) => { const [made] = answer.receipts; location.hash = link("topics", topic, "messages", made.partition, made.offset); }));
  const actions = html`
    <${Button} may=${record && may("produce")} onClick=${resend}>Send again, edited<//>
    <${Button} may=${record && may("manage")} onClick=${() => open(cancel)}>Cancel<//>`;
  const crumbs = [["Topics", "#/topics"], [topic, link("topics", topic)], ["Messages", link("topics", topic, "messages") + `?partition=${partition}&offset=${offset}`]];
  return html`<${Page} title=${`Message ${partition}:${offset}`} crumbs=${crumbs} actions=${actions}>
    <${Failure} error=${error} />
    ${data && !record && html`<${Empty} title="There is no such message">The log of this partition goes from ${data.log_start} to ${data.end}.<//>`}
    ${!data && !error && html`<${Loading} />`}
    ${record && html`<dl class="facts">
        <dt>Time</dt><dd>${time(record.timestamp_ms, true)}</dd>
        ${record.key !== undefined && html`<dt>Key</dt><dd><code>${keyText(record)}</code></dd>`}
        ${record.deliver_at_ms > 0 && html`<dt>Delivered from</dt><dd>${time(record.deliver_at_ms, true)}</dd>`}
        ${record.ttl_ms > 0 && html`<dt>Expires</dt><dd>${time(record.timestamp_ms + record.ttl_ms, true)}</dd>`}
        ${record.priority > 0 && html`<dt>Priority</dt><dd>${record.priority}</dd>`}
        ${record.idempotency_key && html`<dt>Idempotency key</dt><dd><code>${asText(record.idempotency_key) ?? record.idempotency_key}</code></dd>`}
        ${(record.headers ?? []).map((pair) => html`<dt>${pair.name}</dt><dd><code class="header">${asText(pair.value) ?? pair.value}</code></dd>`)}
      </dl>
      <${Section} title="Payload" aside=${html`<${Badge}>${content.kind}<//> ${bytes(content.size)} <${Copy} text=${text ?? record.payload} />`}>
        <pre class="payload" tabindex="0">${content.text || "(empty)"}</pre>
      <//>`}
    <${Section} title="Life in each group">
      <${Failure} error=${groups.error} />
      ${groups.data && !queues.length && html`<${Empty} title="No queue group reads this topic.">Stream groups have positions, and no state for a single message.<//>`}
      ${queues.map((group) => html`<${Life} key=${group} ...${{ topic, partition, offset, group, open, again }} found=${lives[group]?.data} error=${lives[group]?.error} produced=${record?.timestamp_ms ?? 0} />`)}
    <//>
    ${dialog}
  <//>`;
}
