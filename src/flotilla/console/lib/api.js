// The HTTP interface of the node that served this page: nothing else is ever asked.
import { useCallback, useEffect, useRef, useState } from "./html.js";

export class ApiError extends Error {
  constructor(status, body) {
    super(body.message || `the node answered with status ${status}`);
    this.status = status;
    this.code = body.code || "UNKNOWN";
    this.retryable = body.retryable === true;
  }
}

const unreachable = { code: "UNREACHABLE", message: "this node does not answer; the console tries again", retryable: true };

let session = null;

/** {user, csrf} of a browser's session; both are empty where nobody is asked, or where a certificate says it. */
export function browserSession() {
  session ??= fetch("/session", { cache: "no-store" }).then((answer) => answer.json()).catch(() => ({ user: "", csrf: "" }));
  return session;
}

const logIn = () => location.assign("/login?next=" + encodeURIComponent("/console"));

export async function logOut() {
  await call("POST", "/logout", {});
  logIn();
}

export async function call(method, path, body, signal) {
  const options = { method, signal, headers: { Accept: "application/json" }, cache: "no-store" };
  if (method !== "GET" && method !== "DELETE") {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body ?? {});
  }
  if (method !== "GET") {
    const { csrf } = await browserSession();
    if (csrf) options.headers["Flotilla-Csrf"] = csrf;
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, unreachable);
  }
  const text = await answer.text();
  let found;
  try {
    found = text ? JSON.parse(text) : {};
  } catch {
    found = { message: `the node answered with status ${answer.status} and no JSON` };
  }
  if (answer.status === 401 && found.code === "UNAUTHENTICATED") logIn();
  if (!answer.ok) throw new ApiError(answer.status, found);
  return found;
}

export const get = (path, signal) => call("GET", path, undefined, signal);

/** A path from names and a query; names are encoded. */
export function url(strings, ...names) {
  return strings.reduce((all, part, at) => all + part + (at < names.length ? encodeURIComponent(names[at]) : ""), "");
}

export function query(given) {
  const pairs = Object.entries(given).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  return pairs.length ? "?" + new URLSearchParams(pairs) : "";
}

/** How many times as long as for an answer the console waits before it asks again. */
const PAUSES = 20;

/** Data of a path, asked for again every so often while the page is looked at. The last answer stays through an error. */
export function useApi(path, every = 5000) {
  const [found, setFound] = useState({ data: null, error: null, path: null });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useEffect(() => {
    if (!path) return undefined;
    const ending = new AbortController();
    let timer = 0;
    async function ask() {
      const began = performance.now();
      if (!document.hidden) {
        try {
          const data = await get(path, ending.signal);
          setFound({ data, error: null, path });
        } catch (error) {
          if (ending.signal.aborted) return;
          setFound((last) => ({ data: last.path === path ? last.data : null, error, path }));
        }
      }
      // A node that takes long for an answer, as one with many topics, is asked less often.
      if (every && !ending.signal.aborted) timer = setTimeout(ask, Math.max(every, PAUSES * (performance.now() - began)));
    }
    ask();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [path, every, turn]);
  const isCurrent = found.path === path;
  return { data: isCurrent ? found.data : null, error: isCurrent ? found.error : null, reload };
}

/** What the caller may do in a topic and group: a set of actions; all of them while that is not known. */
export function useRights(topic = "", group = "") {
  const { data } = useApi("/v1/session" + query({ topic, group }), 0);
  const rights = useRef(null);
  rights.current = data;
  return {
    session: data,
    may: (action) => !data || data.actions.includes(action),
  };
}

/** Asks several paths, a few at a time, and calls `found(key, data, error)` for each. Returns what ends it. */
export function gather(paths, found) {
  const ending = new AbortController();
  const left = Object.entries(paths);
  async function work() {
    for (let next = left.shift(); next; next = left.shift()) {
      try {
        found(next[0], await get(next[1], ending.signal), null);
      } catch (error) {
        if (ending.signal.aborted) return;
        found(next[0], null, error);
      }
    }
  }
  for (let lane = 0; lane < 4; lane++) work();
  return () => ending.abort();
}

/** The answers of several paths by key, asked for again every so often. */
export function useMany(paths, every = 5000) {
  const [answers, setAnswers] = useState({});
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(paths);
  useEffect(() => {
    const end = document.hidden ? () => {} : gather(paths, (name, data, error) => {
      setAnswers((last) => ({ ...last, [name]: { data: data ?? last[name]?.data ?? null, error } }));
    });
    const timer = every ? setTimeout(() => setTurn((n) => n + 1), every) : 0;
    return () => {
      end();
      clearTimeout(timer);
    };
  }, [key, every, turn]);
  return [answers, () => setTurn((n) => n + 1)];
}

const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", `'\\''`)}'`);

/** An argument of a command that may be empty, or begin like an option. It comes last. */
export const given = (text) => (String(text).startsWith("-") ? ["--", text] : [{ text: String(text) }]);

/** A command line; arguments are quoted where a shell needs it, and empty ones are left out. */
export function cli(...words) {
  return "flotilla " + words.flat().filter((word) => word !== "" && word !== null && word !== undefined).map((word) => shell(word.text ?? word)).join(" ");
}

/** What is written to the standard input of a command, given in base64. */
export const piped = (base64, line) => `echo ${shell(base64)} | base64 -d | ${line}`;

/** The same as a request of the console. */
export function curl({ method, path, body }) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push(shell(location.origin + path));
  if (method !== "GET" && method !== "DELETE") {
    parts.push("-H", shell("Content-Type: application/json"), "-d", shell(JSON.stringify(body ?? {})));
  }
  return parts.join(" ");
}
