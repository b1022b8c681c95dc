// Parts that pages are made of: tables, tiles, notes, and the dialog of every action.
import { call, curl, gather } from "./api.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { number } from "./format.js";

export const link = (...names) => "#/" + names.map(encodeURIComponent).join("/");

export function Page({ title, crumbs = [], actions, children }) {
  useEffect(() => {
    document.title = `${title} · Flotilla`;
  }, [title]);
  return html`<main id="main" tabindex="-1">
    <header class="page">
      ${crumbs.length > 0 && html`<nav aria-label="Breadcrumb" class="crumbs">
        ${crumbs.map(([text, href]) => html`<a href=${href}>${text}</a><span aria-hidden="true">/</span>`)}
      </nav>`}
      <h1>${title}</h1>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}
  </main>`;
}

export function Section({ title, aside, children }) {
  return html`<section aria-label=${title}>
    <div class="head"><h2>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</div>
    ${children}
  </section>`;
}

export const Badge = ({ tone = "plain", children }) => html`<span class=${"badge " + tone}>${children}</span>`;

export function Note({ tone = "plain", children }) {
  return html`<div class=${"note " + tone} role=${tone === "bad" ? "alert" : "status"}>${children}</div>`;
}

/** An error of the interface as a sentence; a problem that may pass says so. */
export function Failure({ error }) {
  if (!error) return null;
  const text = error.message.charAt(0).toUpperCase() + error.message.slice(1).replace(/\.?$/, ".");
  return html`<${Note} tone="bad">${text} ${error.retryable && error.status ? "It may work again soon." : ""}
    ${error.code && html` <code>${error.code}</code>`}<//>`;
}

export const Loading = () => html`<p class="loading" role="status">Loading…</p>`;

export const Empty = ({ title, children }) => html`<div class="empty"><p class="big">${title}</p>${children && html`<p>${children}</p>`}</div>`;

export function Tiles({ items }) {
  return html`<dl class="tiles">
    ${items.map(([name, value, unit, tone]) => html`<div class=${tone || ""}>
      <dt>${name}</dt><dd>${value}${unit && html`<small> ${unit}</small>`}</dd>
    </div>`)}
  </dl>`;
}

/** Columns are [title, cell(row), className]. A row with `href` is a link from its first cell. Where there is little
 * room a row is a card, and each cell has its title in front: roles keep the table one for screen readers. */
export function Table({ label, columns, rows, empty, href, rowKey }) {
  if (!rows.length && empty) return empty;
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}>
    <table role="table" class="cards">
      <thead role="rowgroup"><tr role="row">${columns.map(([title, , kind]) => html`<th role="columnheader" scope="col" class=${kind || ""}>${title || html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>
      <tbody role="rowgroup">
        ${rows.map((row, at) => html`<tr role="row" key=${rowKey ? rowKey(row) : at}>
          ${columns.map(([title, cell, kind], place) => html`<td role="cell" class=${kind || ""} data-title=${title}>
            ${place === 0 && href ? html`<a href=${href(row)}>${cell(row)}</a>` : cell(row)}
          </td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

export function Copy({ text }) {
  const [isDone, setDone] = useState(false);
  async function copy() {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  }
  return html`<button type="button" class="quiet small" onClick=${copy} aria-label=${"Copy: " + text.slice(0, 60)}>${isDone ? "Copied" : "Copy"}</button>`;
}

/** The command line and the request that do the same as the console. */
export function Same({ request, line, isOpen = false }) {
  const rows = [...[line].flat().filter(Boolean).map((text) => ["CLI", text]), ...[request].flat().filter(Boolean).map((each) => ["curl", curl(each)])];
  return html`<details class="same" open=${isOpen}>
    <summary>The same on the command line</summary>
    ${rows.map(([name, text]) => html`<div class="line"><span class="name">${name}</span><code>${text}</code><${Copy} text=${text} /></div>`)}
  </details>`;
}

export function Button({ onClick, may = true, tone = "", children, why = "You may not do this here." }) {
  return html`<button type="button" class=${tone} disabled=${!may} title=${may ? undefined : why} onClick=${onClick}>${children}</button>`;
}

function Field({ field, value, change }) {
  const { name, label, help, type = "text", options } = field;
  const input = (event) => change(type === "checkbox" ? event.target.checked : event.target.value);
  const common = { id: "f-" + name, name, onInput: input, required: field.required, "aria-describedby": help ? "h-" + name : undefined };
  let control;
  if (options) {
    control = html`<select ...${common} value=${value} onChange=${input}>${options.map((each) => {
      const [key, text] = Array.isArray(each) ? each : [each, each];
      return html`<option value=${key} selected=${key === value}>${text}</option>`;
    })}</select>`;
  } else if (type === "area") {
    control = html`<textarea ...${common} rows=${field.rows || 6} spellcheck="false" value=${value}></textarea>`;
  } else if (type === "checkbox") {
    return html`<p class="field check"><label><input ...${common} type="checkbox" checked=${value} /> ${label}</label></p>`;
  } else {
    control = html`<input ...${common} type=${type} min=${field.min} placeholder=${field.placeholder} value=${value} autocomplete="off" spellcheck="false" />`;
  }
  return html`<p class="field"><label for=${common.id}>${label}</label>${control}${help && html`<small id=${"h-" + name}>${help}</small>`}</p>`;
}

/**
 * The dialog of an action. `action` is
 *   title, text, fields [{name, label, type, value, help, options, required}], button, isDangerous,
 *   typed: a name that must be typed first,
 *   build(values): {method, path, body, cli}, or null while there is nothing to do,
 *   extra(values): what the values mean, shown below them,
 *   dryRun(values): a request that changes nothing, and shown(answer, values): what it found,
 *   run(values, request, progress): instead of one request, done(answer, values).
 */
export function ActionDialog({ action, close }) {
  const dialog = useRef(null);
  const [values, setValues] = useState(() => Object.fromEntries((action.fields || []).map((f) => [f.name, f.value ?? ""])));
  const [typed, setTyped] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [planned, setPlanned] = useState(null);
  const [progress, setProgress] = useState("");
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  let request = null;
  let problem = null;
  try {
    request = action.build(values);
  } catch (found) {
    problem = found.message;
  }
  const dry = action.dryRun?.(values);
  const isReady = request && !isBusy && (!action.typed || typed === action.typed);
  async function attempt(work) {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (found) {
      setError(found);
    }
    setBusy(false);
  }
  const look = () => attempt(async () => setPlanned(action.shown(await call(dry.method, dry.path, dry.body), values)));
  function submit(event) {
    event.preventDefault();
    if (!isReady) return;
    attempt(async () => {
      const answer = action.run ? await action.run(values, request, setProgress) : await call(request.method, request.path, request.body);
      dialog.current.close();
      await action.done?.(answer, values);
    });
  }
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${close}>
    <form onSubmit=${submit}>
      <h2 id="dialog-title">${action.title}</h2>
      ${action.text && html`<p>${action.text}</p>`}
      ${(action.fields || []).filter((f) => !f.isShown || f.isShown(values)).map((field) => html`<${Field} key=${field.name} field=${field} value=${values[field.name]}
        change=${(value) => { setValues({ ...values, [field.name]: value }); setPlanned(null); }} />`)}
      ${action.typed && html`<p class="field"><label for="typed">Type <code>${action.typed}</code> to confirm</label>
        <input id="typed" value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" spellcheck="false" /></p>`}
      ${action.extra?.(values)}
      ${problem && html`<${Note} tone="warn">${problem}<//>`}
      ${planned}
      ${progress && html`<${Note}>${progress}<//>`}
      <${Failure} error=${error} />
      ${request && html`<${Same} request=${request} line=${request.cli} />`}
      <div class="buttons">
        <button type="button" class="quiet" onClick=${() => dialog.current.close()}>Cancel</button>
        ${dry && html`<button type="button" disabled=${isBusy} onClick=${look}>Dry run</button>`}
        <button type="submit" class=${action.isDangerous ? "danger" : "primary"} disabled=${!isReady}>${isBusy ? "Working…" : action.button || action.title}</button>
      </div>
    </form>
  </dialog>`;
}

/** [open(action), the dialog while one is open]. */
export function useAction() {
  const [action, open] = useState(null);
  return [open, action && html`<${ActionDialog} key=${action.title} action=${action} close=${() => open(null)} />`];
}

/** A list by pages: [page controls, after]. `last` is the last name shown, `total` how many there are. */
export function usePages(resetKey) {
  const [stack, setStack] = useState({ key: resetKey, afters: [""] });
  const afters = stack.key === resetKey ? stack.afters : [""];
  const move = (next) => setStack({ key: resetKey, afters: next });
  const controls = (last, shown, total, size) => (total > size || afters.length > 1) && html`<nav class="pager" aria-label="Pages">
    <button type="button" class="quiet" disabled=${afters.length === 1} onClick=${() => move(afters.slice(0, -1))}>← Previous</button>
    <span>${number((afters.length - 1) * size + 1)} to ${number((afters.length - 1) * size + shown)} of ${number(total)}</span>
    <button type="button" class="quiet" disabled=${(afters.length - 1) * size + shown >= total} onClick=${() => move([...afters, last])}>Next →</button>
  </nav>`;
  return [controls, afters[afters.length - 1]];
}

export function Search({ label, value, change, placeholder }) {
  const [text, setText] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => text !== value && change(text), 200);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class="search"><span class="unseen">${label}</span>
    <input type="search" value=${text} placeholder=${placeholder || label} onInput=${(event) => setText(event.target.value)} /></label>`;
}

/** `name=value` lines as an object. Raises for a line that is none. */
export function readPairs(text, separator = "=") {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf(separator);
    if (at < 1) throw new Error(`“${line}”: expected name${separator}value`);
    found[line.slice(0, at).trim()] = line.slice(at + separator.length).trim();
  }
  return found;
}

/** Changes of settings as [name, before, after] rows. */
export function Difference({ rows }) {
  if (!rows.length) return html`<${Note}>Nothing changes yet.<//>`;
  return html`<table class="difference"><caption>What changes</caption><tbody>
    ${rows.map(([name, before, after]) => html`<tr><th scope="row">${name}</th><td><del>${before}</del></td><td><ins>${after}</ins></td></tr>`)}
  </tbody></table>`;
}

/** Settings in force, with their origin; those that are set come first. */
export function Settings({ settings }) {
  const [isAll, setAll] = useState(false);
  const set = settings.filter((each) => each.origin !== "default");
  const rows = isAll ? settings : set;
  const toggle = html`<button type="button" class="quiet small" onClick=${() => setAll(!isAll)}>${isAll ? "Only what is set" : `Show all ${settings.length}`}</button>`;
  return html`<${Section} title="Settings" aside=${toggle}>
    <${Table} label="Settings" rows=${rows} rowKey=${(row) => row.name}
      empty=${html`<${Empty} title="All settings have their defaults." />`}
      columns=${[
        ["Setting", (row) => html`<code>${row.name}</code>`],
        ["Value", (row) => html`<strong>${row.value || "(empty)"}</strong>`],
        ["Origin", (row) => html`<${Badge} tone=${row.origin === "default" ? "plain" : "info"}>${row.origin}<//>`],
        ["Meaning", (row) => html`<span class="dim">${row.meaning}</span>`, "wide"],
      ]} />
  <//>`;
}

/** The action that alters settings: lines of name=value, and the difference to what is set now. */
export function settingsAction({ title, settings, more = [], request, done }) {
  const now = Object.fromEntries(settings.filter((each) => each.origin !== "default" && each.isOwn !== false).map((each) => [each.name, each.value]));
  const known = Object.fromEntries(settings.map((each) => [each.name, each]));
  function changes(values) {
    const wanted = readPairs(values.settings);
    const found = {};
    for (const name of Object.keys(wanted)) {
      if (!known[name]) throw new Error(`There is no setting “${name}”.`);
      if (wanted[name] !== now[name]) found[name] = wanted[name];
    }
    for (const name of Object.keys(now)) if (!(name in wanted)) found[name] = "";
    return found;
  }
  function rows(values) {
    try {
      const own = Object.entries(changes(values)).map(([name, after]) => [name, known[name].value, after || `${known[name].default} (default)`]);
      return [...more.filter((f) => String(values[f.name]) !== String(f.value)).map((f) => [f.label, f.value, values[f.name]]), ...own];
    } catch {
      return [];
    }
  }
  return {
    title,
    button: "Apply",
    fields: [...more, { name: "settings", label: "Settings that are set, one name=value a line", type: "area", help: "Remove a line to return to the default. Durations are written 30s or 7d, sizes 1MiB.",
      value: Object.entries(now).map(([name, value]) => `${name}=${value}`).join("\n") }],
    extra: (values) => html`<${Difference} rows=${rows(values)} />`,
    build: (values) => (changes(values), rows(values).length ? request(values, changes(values)) : null),
    done,
  };
}

export { gather };
