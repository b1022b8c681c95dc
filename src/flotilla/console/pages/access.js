// Who may do what: users and grants.
import { cli, url, useApi, useRights } from "../lib/api.js";
import { time } from "../lib/format.js";
import { html } from "../lib/html.js";
import { Badge, Button, Empty, Failure, Note, Page, Same, Section, Table, useAction } from "../lib/parts.js";

const ACTIONS = [["produce", "produce: store messages"], ["consume", "consume: read and settle messages"], ["describe", "describe: see how things are"],
  ["manage", "manage: create, change and delete"], ["operate", "operate: nodes, users and grants"]];

const words = (grant) => [grant.user, grant.action, ...(grant.action === "operate" ? [] : [grant.topic, ...(grant.group === "*" ? [] : ["--group", grant.group])])];

export default function Access() {
  const { session, may } = useRights();
  const users = useApi("/v1/users", 10000);
  const grants = useApi("/v1/grants", 10000);
  const [open, dialog] = useAction();
  const grant = () => open({
    title: "Grant a right", button: "Grant",
    fields: [
      { name: "user", label: "User", required: true, help: "By the name of the password, certificate or token." },
      { name: "action", label: "May", options: ACTIONS, value: "consume" },
      { name: "topic", label: "Topics", value: "*", help: "A name, a prefix and *, or * for all.", isShown: (values) => values.action !== "operate" },
      { name: "group", label: "Groups", value: "*", isShown: (values) => !["operate", "produce"].includes(values.action) },
    ],
    build: (values) => {
      const made = { user: values.user, action: values.action, topic: values.action === "operate" ? "*" : values.topic, group: ["operate", "produce"].includes(values.action) ? "*" : values.group };
      return values.user && { method: "POST", path: "/v1/grants", body: made, cli: cli("acl", "grant", words(made)) };
    },
    done: grants.reload,
  });
  const revoke = (row) => open({
    title: "Revoke a grant", button: "Revoke", isDangerous: true, text: html`<code>${words(row).join(" ")}</code> is taken back. What the user is doing by it ends.`,
    build: () => ({ method: "POST", path: "/v1/grants/revoke", body: row, cli: cli("acl", "revoke", words(row)) }), done: grants.reload,
  });
  const remove = (row) => open({
    title: `Delete ${row.name}`, button: "Delete the user", isDangerous: true, typed: row.name, text: "Removes the user and all its grants. Its connections end.",
    build: () => ({ method: "DELETE", path: url`/v1/users/${row.name}`, cli: cli("user", "delete", row.name) }), done: () => { users.reload(); grants.reload(); },
  });
  return html`<${Page} title="Access" actions=${html`<${Button} tone="primary" may=${may("operate")} onClick=${grant}>Grant a right<//>`}>
    ${session && !session.is_known && html`<${Note} tone="warn">This cluster asks nobody who they are: everybody who reaches it may do everything. <code>authentication = true</code> changes that.<//>`}
    ${session?.is_known && html`<${Note}>You are <strong>${session.principal}</strong> and may ${session.actions.length ? `${session.actions.join(", ")} everything` : "do what your grants say"}.<//>`}
    <${Section} title="Users"><${Failure} error=${users.error} />
      ${users.data && html`<${Table} label="Users" rows=${users.data.users} rowKey=${(row) => row.name}
        empty=${html`<${Empty} title="No user has a password">Passwords are set with <code>flotilla user create anna</code>, and never in a browser.<//>`}
        columns=${[["User", (row) => html`<strong>${row.name}</strong>`], ["Created", (row) => time(row.created_ms, true), "one"], ["Password set", (row) => time(row.password_ms, true), "one"],
          ["", (row) => html`<${Button} may=${may("operate")} onClick=${() => remove(row)}>Delete<//>`, "end"]]} />`}<//>
    <${Section} title="Grants"><${Failure} error=${grants.error} />
      ${grants.data && html`<${Table} label="Grants" rows=${grants.data.grants} rowKey=${(row) => words(row).join(" ")}
        empty=${html`<${Empty} title="No grants">What no grant allows is refused, once authentication is on.<//>`}
        columns=${[["User", (row) => html`<strong>${row.user}</strong>`], ["May", (row) => html`<${Badge} tone="info">${row.action}<//>`], ["Topics", (row) => html`<code>${row.topic}</code>`], ["Groups", (row) => html`<code>${row.group}</code>`],
          ["", (row) => html`<${Button} may=${may("operate")} onClick=${() => revoke(row)}>Revoke<//>`, "end"]]} />`}<//>
    <${Same} line=${[cli("user", "list"), cli("acl", "list")]} request=${[{ method: "GET", path: "/v1/users" }, { method: "GET", path: "/v1/grants" }]} />
    ${dialog}
  <//>`;
}
