// The dead-letter topics, each of which belongs to a group of a topic.
import { cli, query, url, useApi, useMany } from "../lib/api.js";
import { number } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Empty, Failure, Loading, Page, Same, Section, Table, link, usePages } from "../lib/parts.js";

const SIZE = 50;

/** The group and topic of `dlq.<group>.<topic>`, in which the dots of the group are doubled. */
export function ownerOf(name) {
  const found = name.match(/^dlq\.((?:[^.]|\.\.)+)\.([^.].*)$/);
  return found && { group: found[1].replaceAll("..", "."), topic: found[2] };
}

export default function DeadLetters() {
  const [controls, after] = usePages("");
  const { data, error } = useApi("/v1/topics" + query({ limit: SIZE, after, search: "dlq." }), 10000);
  const rows = (data?.topics ?? []).map((topic) => ({ ...topic, owner: ownerOf(topic.topic) })).filter((topic) => topic.owner);
  const parts = rows.flatMap((topic) => topic.partitions.map((part) => [`${topic.topic}/${part.number}`, url`/v1/topics/${topic.topic}/partitions/${part.number}`]));
  const [answers] = useMany(Object.fromEntries(parts), 10000);
  const kept = (topic) => topic.partitions.reduce((all, part) => {
    const found = answers[`${topic.topic}/${part.number}`]?.data;
    return all === null || !found ? null : all + found.next_offset - found.first_offset;
  }, 0);
  function go(event) {
    event.preventDefault();
    const { topic, group } = event.target.elements;
    location.hash = link("dead-letters", topic.value, group.value);
  }
  return html`<${Page} title="Dead letters">
    <p class="dim">A message that fails for the last time goes to the dead-letter topic of its group, with the reason. It can be redriven or purged from there.</p>
    <${Failure} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Dead-letter topics" rows=${rows} rowKey=${(row) => row.topic} href=${(row) => link("dead-letters", row.owner.topic, row.owner.group)}
      empty=${html`<${Empty} title="No message has died">Dead letters appear here, by topic and group.<//>`}
      columns=${[
        ["Group", (row) => row.owner.group],
        ["Topic", (row) => html`<a href=${link("topics", row.owner.topic)}>${row.owner.topic}</a>`],
        ["Letters kept", (row) => number(kept(row)), "right"],
        ["Dead-letter topic", (row) => html`<a href=${link("topics", row.topic)}><code>${row.topic}</code></a>`],
      ]} />
      ${controls(data.topics.at(-1)?.topic, data.topics.length, data.total, SIZE)}`}
    <${Section} title="Another group">
      <form class="filters" onSubmit=${go}>
        <label>Topic<input name="topic" required /></label><label>Group<input name="group" required /></label>
        <button type="submit">Look</button>
      </form>
    <//>
    <${Same} line=${cli("group", "list")} request=${{ method: "GET", path: "/v1/topics?search=dlq." }} />
  <//>`;
}
