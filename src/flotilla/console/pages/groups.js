// The groups of all topics, a page of topics at a time.
import { cli, query, url, useApi, useMany } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { Empty, Failure, Loading, Page, Same, Search, Section, link, usePages } from "../lib/parts.js";
import { GroupRows } from "./topic.js";

const SIZE = 15;

export default function Groups() {
  const [text, setText] = useState("");
  const [controls, after] = usePages(text);
  const { data, error } = useApi("/v1/topics" + query({ limit: SIZE, after, search: text }), 15000);
  const topics = (data?.topics ?? []).map((topic) => topic.topic);
  const [lists] = useMany(Object.fromEntries(topics.map((topic) => [topic, url`/v1/topics/${topic}/groups`])), 10000);
  const groups = topics.flatMap((topic) => (lists[topic]?.data?.groups ?? []).map((each) => [topic, each.group]));
  const [answers] = useMany(Object.fromEntries(groups.map(([topic, group]) => [`${topic}\n${group}`, url`/v1/topics/${topic}/groups/${group}`])), 5000);
  const used = topics.filter((topic) => lists[topic]?.data?.groups.length);
  const isKnown = data && topics.every((topic) => lists[topic]);
  return html`<${Page} title="Groups">
    <div class="filters"><${Search} label="Find a topic" value=${text} change=${setText} placeholder="Find by part of the topic" /></div>
    <${Failure} error=${error} />
    ${!isKnown && !error && html`<${Loading} />`}
    ${isKnown && !used.length && html`<${Empty} title="No group on these topics">A group begins with its first poll or commit: <code>flotilla consume orders --group billing</code><//>`}
    ${used.map((topic) => html`<${Section} key=${topic} title=${topic} aside=${html`<a href=${link("topics", topic)}>Topic</a>`}>
      <${GroupRows} topic=${topic} groups=${lists[topic].data.groups}
        answers=${Object.fromEntries(lists[topic].data.groups.map(({ group }) => [group, answers[`${topic}\n${group}`]]))} />
    <//>`)}
    ${data && controls(topics.at(-1), topics.length, data.total, SIZE)}
    <${Same} line=${cli("group", "list")} request=${topics.slice(0, 1).map((topic) => ({ method: "GET", path: url`/v1/topics/${topic}/groups` }))} />
  <//>`;
}
