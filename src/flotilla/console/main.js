// The shell around the pages: navigation, theme, and the page that the address names.
import { browserSession, get, logOut, useApi, useRights } from "./lib/api.js";
import { html, render, useEffect, useState } from "./lib/html.js";
import { Failure, Loading, Note } from "./lib/parts.js";

const NAVIGATION = [
  ["Overview", ""], ["Topics", "topics"], ["Groups", "groups"], ["Dead letters", "dead-letters"],
  ["Scheduled", "schedules"], ["Tasks", "tasks"], ["Pipelines", "pipelines"], ["Cluster", "cluster"], ["Access", "access"],
];

/** Modules of pages by the shape of the address: a name of an argument begins with a colon. */
const ROUTES = [
  ["", "overview"],
  ["topics", "topics"],
  ["topics/:topic", "topic"],
  ["topics/:topic/messages", "messages"],
  ["topics/:topic/messages/:partition/:offset", "message"],
  ["groups", "groups"],
  ["topics/:topic/groups/:group", "group"],
  ["dead-letters", "dead_letters"],
  ["dead-letters/:topic/:group", "dead_letter_group"],
  ["schedules", "schedules"],
  ["tasks", "tasks"],
  ["tasks/:queue", "task_queue"],
  ["pipelines", "pipelines"],
  ["cluster", "cluster"],
  ["access", "access"],
];

function read(hash) {
  const [path, search] = hash.replace(/^#\/?/, "").split("?");
  const names = path.split("/").filter(Boolean).map(decodeURIComponent);
  for (const [shape, module] of ROUTES) {
    const parts = shape.split("/").filter(Boolean);
    if (parts.length === names.length && parts.every((part, at) => part.startsWith(":") || part === names[at])) {
      const found = Object.fromEntries(parts.flatMap((part, at) => (part.startsWith(":") ? [[part.slice(1), names[at]]] : [])));
      return { module, names: found, top: names[0] || "", search: Object.fromEntries(new URLSearchParams(search)) };
    }
  }
  return { module: null, names: {}, top: names[0] || "", search: {} };
}

function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem("flotilla-theme") || "");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    if (theme) localStorage.setItem("flotilla-theme", theme);
    else localStorage.removeItem("flotilla-theme");
  }, [theme]);
  return [theme, setTheme];
}

function Jump() {
  const [names, setNames] = useState([]);
  async function look(event) {
    const text = event.target.value;
    if (names.includes(text)) {
      event.target.value = "";
      location.hash = "#/topics/" + encodeURIComponent(text);
      return;
    }
    if (!text) return;
    const found = await get("/v1/topics?limit=8&search=" + encodeURIComponent(text)).catch(() => ({ topics: [] }));
    setNames(found.topics.map((topic) => topic.topic));
  }
  function go(event) {
    event.preventDefault();
    const input = event.target.elements.topic;
    const name = names.includes(input.value) || !names.length ? input.value : names[0];
    if (name) location.hash = "#/topics/" + encodeURIComponent(name);
    input.value = "";
  }
  return html`<form role="search" class="jump" onSubmit=${go}>
    <label><span class="unseen">Go to a topic</span>
      <input name="topic" type="search" list="jump-names" placeholder="Go to a topic ( / )" onInput=${look} autocomplete="off" spellcheck="false" /></label>
    <datalist id="jump-names">${names.map((name) => html`<option value=${name} />`)}</datalist>
  </form>`;
}

function Shell() {
  const [place, setPlace] = useState(() => read(location.hash));
  const [page, setPage] = useState({ module: null, View: null, error: null });
  const [theme, setTheme] = useTheme();
  const cluster = useApi("/v1/cluster", 5000);
  const { session } = useRights();
  const [hasLoggedIn, setLoggedIn] = useState(false);
  useEffect(() => {
    browserSession().then((found) => setLoggedIn(Boolean(found.csrf)));
  }, []);
  useEffect(() => {
    const moved = () => {
      setPlace(read(location.hash));
      scrollTo(0, 0);
    };
    const pressed = (event) => {
      if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
        event.preventDefault();
        document.querySelector(".jump input").focus();
      }
    };
    addEventListener("hashchange", moved);
    addEventListener("keydown", pressed);
    return () => {
      removeEventListener("hashchange", moved);
      removeEventListener("keydown", pressed);
    };
  }, []);
  useEffect(() => {
    // Where there is little room the navigation scrolls sideways.
    const side = document.querySelector(".side");
    const here = side.querySelector("[aria-current]");
    if (here) side.scrollLeft = here.offsetLeft - side.offsetLeft - (side.clientWidth - here.offsetWidth) / 2;
  }, [place.top]);
  useEffect(() => {
    if (!place.module) return;
    import(`./pages/${place.module}.js`)
      .then((found) => setPage({ module: place.module, View: found.default, error: null }))
      .catch((error) => setPage({ module: place.module, View: null, error }));
  }, [place.module]);
  const { View } = page;
  const isHere = page.module === place.module;
  const name = cluster.data?.cluster_name || "";
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/"><img src=${new URL("./icon.svg", import.meta.url).href} alt="" width="26" height="26" /> <span>Flotilla</span></a>
      ${name && html`<span class="cluster-name">${name}</span>`}
      <${Jump} />
      ${session?.is_known && html`<span class="who">${session.principal}</span>`}
      ${hasLoggedIn && html`<button type="button" class="quiet" onClick=${logOut}>Log out</button>`}
      <label class="theme"><span class="unseen">Colours</span><select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
        <option value="">System</option><option value="light">Light</option><option value="dark">Dark</option></select></label>
    </header>
    <div class="body">
      <nav class="side" aria-label="Main">
        ${NAVIGATION.map(([text, path]) => html`<a href=${"#/" + path} aria-current=${place.top === path ? "page" : undefined}>${text}</a>`)}
        <a class="outside" href="/docs">HTTP interface</a>
      </nav>
      <div class="content">
        ${cluster.error && html`<${Failure} error=${cluster.error} />`}
        ${cluster.data?.is_stale && html`<${Note} tone="warn">No quorum of the cluster's metadata answers: recent changes may be missing here.<//>`}
        ${!place.module && html`<main id="main"><h1>There is no such page</h1><p><a href="#/">Go to the overview</a></p></main>`}
        ${place.module && isHere && page.error && html`<main id="main"><${Failure} error=${page.error} /></main>`}
        ${place.module && isHere && View ? html`<${View} key=${JSON.stringify(place.names)} ...${place.names} search=${place.search} cluster=${cluster.data} />` : place.module && !page.error && html`<main id="main"><${Loading} /></main>`}
      </div>
    </div>`;
}

render(html`<${Shell} />`, document.getElementById("app"));
