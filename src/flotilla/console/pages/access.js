// Who may do what, and how much: users, roles, grants and quotas.
import { cli, url, useApi, useRights } from "../lib/api.js";
import { bytes, number, time } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Note, Page, Same, Section, Table, useAction } from "../lib/parts.js";

const ACTIONS = [["produce", "produce: store messages"], ["consume", "consume: read and settle messages"], ["describe", "describe: see how things are"],
  ["manage", "manage: create, change and delete"], ["operate", "operate: nodes, users and grants"]];
const ROLE = "role:";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** The limits of a quota: [name, option of the command, title, unit, only of]. */
const LIMITS = [
  ["bytes_in_per_second", "--bytes-in", "Sent to a node", "bytes/s"], ["bytes_out_per_second", "--bytes-out", "Received from a node", "bytes/s"],
  ["requests_per_second", "--requests", "Requests at a node", "/s"], ["connections", "--connections", "Connections at a node", "", "user"],
  ["partitions", "--partitions", "Partitions of its topics", ""], ["stored_bytes", "--stored", "Stored in them, without replicas", "bytes"],
];
const OF_BYTES = (unit) => unit.startsWith("bytes");

const isRole = (name) => name.startsWith(ROLE);
const bare = (name) => (isRole(name) ? name.slice(ROLE.length) : name);
const words = (grant) => [bare(grant.user), grant.action, ...(grant.action === "operate" ? [] : [grant.topic, ...(grant.group === "*" ? [] : ["--group", grant.group])])];
const grantLine = (verb, grant) => cli(isRole(grant.user) ? "role" : "acl", verb, words(grant));

/** Bytes of “10MiB”. Raises for what is no size. */
function size(text) {
  const found = String(text).trim().match(/^(\d+)\s*(B|KiB|MiB|GiB|TiB)?$/);
  if (!found) throw new Error(`“${text}” is no size: write 500KiB or 2GiB.`);
  return Number(found[1]) * 1024 ** UNITS.indexOf(found[2] || "B");
}

function Roles({ roles, grants, open, may, again }) {
  const names = [...new Set([...roles.map((each) => each.role), ...grants.filter((each) => isRole(each.user)).map((each) => bare(each.user))])].sort();
  const users = (name) => roles.filter((each) => each.role === name).map((each) => each.user);
  const unassign = (role, user) => open({
    title: `Take ${role} from ${user}`, button: "Unassign", isDangerous: true, text: "What the user is doing by the role ends.",
    build: () => ({ method: "POST", path: "/v1/roles/unassign", body: { user, role }, cli: cli("role", "unassign", role, user) }), done: again,
  });
  const remove = (role) => open({
    title: `Delete ${role}`, button: "Delete the role", isDangerous: true, typed: role, text: "Removes the role with its grants, and takes it from all users.",
    build: () => ({ method: "DELETE", path: url`/v1/users/${ROLE + role}`, cli: cli("role", "delete", role) }), done: again,
  });
  return html`<${Table} label="Roles" rows=${names} rowKey=${(name) => name}
    empty=${html`<${Empty} title="No roles">A role is a set of grants that several users have. Grant a right to <code>role:readers</code>, and assign the role.<//>`}
    columns=${[["Role", (name) => html`<strong>${name}</strong>`],
      ["Users", (name) => users(name).map((user) => html`<span class="one">${user} <button type="button" class="quiet small" disabled=${!may} aria-label=${`Unassign ${name} from ${user}`} onClick=${() => unassign(name, user)}>×</button></span> `)],
      ["Grants", (name) => number(grants.filter((each) => each.user === ROLE + name).length), "right"],
      ["", (name) => html`<${Button} may=${may} onClick=${() => remove(name)}>Delete<//>`, "end"]]} />`;
}

function quotaAction(done) {
  const limits = (values) => LIMITS.filter(([name, , , , only]) => (!only || only === values.kind) && values[name]);
  return {
    title: "Set a quota", button: "Set",
    text: "In place of the quota that the user or namespace had: an empty limit is none. Rates slow callers down; what would exceed another limit is refused.",
    fields: [
      { name: "kind", label: "Of", options: [["user", "a user"], ["namespace", "a namespace: topics whose names begin with it and a dot"]], value: "user" },
      { name: "name", label: "Name", required: true },
      ...LIMITS.map(([name, , label, unit, only]) => ({ name, label: unit ? `${label} (${unit})` : label, placeholder: OF_BYTES(unit) ? "10MiB" : "", ...(OF_BYTES(unit) ? {} : { type: "number", min: 1 }), isShown: (values) => !only || only === values.kind })),
    ],
    build: (values) => {
      const chosen = limits(values);
      if (!values.name || !chosen.length) return null;
      return {
        method: "PUT", path: "/v1/quotas",
        body: { [values.kind]: values.name, ...Object.fromEntries(chosen.map(([name, , , unit]) => [name, OF_BYTES(unit) ? size(values[name]) : Number(values[name])])) },
        cli: cli("quota", "set", `--${values.kind}`, values.name, chosen.flatMap(([name, option]) => [option, String(values[name]).replaceAll(" ", "")])),
      };
    },
    done,
  };
}

function Quotas({ quotas, open, may, again }) {
  const remove = (row) => {
    const [kind, name] = row.user ? ["user", row.user] : ["namespace", row.namespace];
    open({
      title: `Remove the quota of ${name}`, button: "Remove", isDangerous: true, text: "It has no limits of its own from then on.",
      build: () => ({ method: "POST", path: "/v1/quotas/remove", body: { [kind]: name }, cli: cli("quota", "remove", `--${kind}`, name) }), done: again,
    });
  };
  const text = (unit, value) => (OF_BYTES(unit) ? bytes(value) : number(value)) + (unit.endsWith("/s") ? "/s" : "");
  const limits = (row) => LIMITS.filter(([name]) => row[name]).map(([name, , title, unit]) => html`<div>
    <span class="dim">${title}:</span> ${name in row.usage && `${text(unit, row.usage[name])} of `}<strong>${text(unit, row[name])}</strong></div>`);
  return html`<${Table} label="Quotas" rows=${quotas} rowKey=${(row) => `${row.user}/${row.namespace}`}
    empty=${html`<${Empty} title="No quotas">Everybody may use as much as the nodes can do.<//>`}
    columns=${[["Of", (row) => html`<strong>${row.user || row.namespace}</strong> <${Badge}>${row.user ? "user" : "namespace"}<//>`, "one"],
      ["Limits", limits],
      ["", (row) => html`<${Button} may=${may} onClick=${() => remove(row)}>Remove<//>`, "end"]]} />`;
}

export default function Access() {
  const { session, may } = useRights();
  const users = useApi("/v1/users", 10000);
  const roles = useApi("/v1/roles", 10000);
  const grants = useApi("/v1/grants", 10000);
  const quotas = useApi("/v1/quotas", 10000);
  const [open, dialog] = useAction();
  const again = () => { for (const each of [users, roles, grants]) each.reload(); };
  const grant = () => open({
    title: "Grant a right", button: "Grant",
    fields: [
      { name: "user", label: "User", required: true, help: "By the name of the password, certificate or token; or role: and the name of a role." },
      { name: "action", label: "May", options: ACTIONS, value: "consume" },
      { name: "topic", label: "Topics", value: "*", help: "A name, a prefix and *, or * for all.", isShown: (values) => values.action !== "operate" },
      { name: "group", label: "Groups", value: "*", isShown: (values) => !["operate", "produce"].includes(values.action) },
    ],
    build: (values) => {
      const made = { user: values.user, action: values.action, topic: values.action === "operate" ? "*" : values.topic, group: ["operate", "produce"].includes(values.action) ? "*" : values.group };
      return values.user && { method: "POST", path: "/v1/grants", body: made, cli: grantLine("grant", made) };
    },
    done: grants.reload,
  });
  const assign = () => open({
    title: "Assign a role", button: "Assign", text: "The user has the grants of the role from then on.",
    fields: [{ name: "role", label: "Role", required: true }, { name: "user", label: "User", required: true }],
    build: (values) => values.role && values.user && { method: "POST", path: "/v1/roles", body: { user: values.user, role: values.role }, cli: cli("role", "assign", values.role, values.user) },
    done: roles.reload,
  });
  const revoke = (row) => open({
    title: "Revoke a grant", button: "Revoke", isDangerous: true, text: html`<code>${words(row).join(" ")}</code> is taken back. What is being done by it ends.`,
    build: () => ({ method: "POST", path: "/v1/grants/revoke", body: row, cli: grantLine("revoke", row) }), done: grants.reload,
  });
  const remove = (row) => open({
    title: `Delete ${row.name}`, button: "Delete the user", isDangerous: true, typed: row.name, text: "Removes the user, its grants and roles. Its connections end.",
    build: () => ({ method: "DELETE", path: url`/v1/users/${row.name}`, cli: cli("user", "delete", row.name) }), done: again,
  });
  const isOperator = may("operate");
  const actions = html`<${Button} tone="primary" may=${isOperator} onClick=${grant}>Grant a right<//>
    <${Button} may=${isOperator} onClick=${assign}>Assign a role<//>
    <${Button} may=${isOperator} onClick=${() => open(quotaAction(quotas.reload))}>Set a quota<//>`;
  return html`<${Page} title="Access" actions=${actions}>
    ${session && !session.is_known && html`<${Note} tone="warn">This cluster asks nobody who they are: everybody who reaches it may do everything. <code>authentication = true</code> changes that.<//>`}
    ${session?.is_known && html`<${Note}>You are <strong>${session.principal}</strong> and may ${session.actions.length ? `${session.actions.join(", ")} everything` : "do what your grants say"}.<//>`}
    <${Section} title="Users"><${Failure} error=${users.error} />
      ${users.data && html`<${Table} label="Users" rows=${users.data.users} rowKey=${(row) => row.name}
        empty=${html`<${Empty} title="No user has a password">Passwords are set with <code>flotilla user create anna</code>, and never in a browser.<//>`}
        columns=${[["User", (row) => html`<strong>${row.name}</strong>`], ["Created", (row) => time(row.created_ms, true), "one"], ["Password set", (row) => time(row.password_ms, true), "one"],
          ["", (row) => html`<${Button} may=${isOperator} onClick=${() => remove(row)}>Delete<//>`, "end"]]} />`}<//>
    <${Section} title="Roles"><${Failure} error=${roles.error} />
      ${roles.data && grants.data && html`<${Roles} roles=${roles.data.roles} grants=${grants.data.grants} open=${open} may=${isOperator} again=${again} />`}<//>
    <${Section} title="Grants"><${Failure} error=${grants.error} />
      ${grants.data && html`<${Table} label="Grants" rows=${grants.data.grants} rowKey=${(row) => row.user + words(row).join(" ")}
        empty=${html`<${Empty} title="No grants">What no grant allows is refused, once authentication is on.<//>`}
        columns=${[["User", (row) => html`<strong>${bare(row.user)}</strong> ${isRole(row.user) && html`<${Badge}>role<//>`}`], ["May", (row) => html`<${Badge} tone="info">${row.action}<//>`], ["Topics", (row) => html`<code>${row.topic}</code>`], ["Groups", (row) => html`<code>${row.group}</code>`],
          ["", (row) => html`<${Button} may=${isOperator} onClick=${() => revoke(row)}>Revoke<//>`, "end"]]} />`}<//>
    <${Section} title="Quotas"><${Failure} error=${quotas.error} />
      ${quotas.data && html`<${Quotas} quotas=${quotas.data.quotas} open=${open} may=${isOperator} again=${quotas.reload} />`}<//>
    <${Same} line=${[cli("user", "list"), cli("role", "list"), cli("acl", "list"), cli("quota", "list")]} request=${["users", "roles", "grants", "quotas"].map((each) => ({ method: "GET", path: `/v1/${each}` }))} />
    ${dialog}
  <//>`;
}
