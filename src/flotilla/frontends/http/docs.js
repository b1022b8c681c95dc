"use strict";

// Of a browser's session, if the page has one: what changes something carries it.
let csrf = "";

const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};

// What a schema means, in a few words.
const inWords = (schema) => {
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return `list of ${inWords(schema.items || {})}`;
  const words = [schema.contentEncoding || schema.type || "any JSON"];
  if ("minimum" in schema) words.push(`${schema.minimum} to ${schema.maximum}`);
  if ("maxLength" in schema) words.push(`up to ${schema.maxLength} characters`);
  if ("default" in schema) words.push(`default ${JSON.stringify(schema.default)}`);
  return words.join(", ");
};

const fieldTable = (rows) => {
  const table = make("table");
  for (const [name, needed, schema] of rows) {
    table.append(make("tr", "", make("td", "", make("code", name + (needed ? " *" : ""))), make("td", inWords(schema)),
      make("td", schema.description || "")));
  }
  return table;
};

const fieldsOf = (schema) => Object.entries(schema.properties || {})
  .map(([name, inner]) => [name, (schema.required || []).includes(name), inner]);

// A body to begin with: what is needed, and nothing else.
const sample = (schema) => {
  if ("default" in schema) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.type === "object") {
    return Object.fromEntries(fieldsOf(schema).filter((field) => field[1]).map(([name, , inner]) => [name, sample(inner)]));
  }
  if (schema.type === "array") return schema.minItems ? [sample(schema.items)] : [];
  if (schema.type === "integer") return schema.minimum || 0;
  if (schema.type === "boolean") return false;
  return schema.type === "string" ? "" : null;
};

const tryForm = (method, path, operation, body) => {
  const form = make("form");
  const inputs = (operation.parameters || []).map((parameter) => {
    const input = make("input");
    input.placeholder = inWords(parameter.schema);
    form.append(make("label", `${parameter.name} `, input));
    return [parameter, input];
  });
  const area = body ? make("textarea") : null;
  if (area) {
    area.value = JSON.stringify(sample(body), null, 2);
    form.append(area);
  }
  const answer = make("pre");
  answer.hidden = true;
  form.append(make("button", "Send"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let target = path;
    const query = new URLSearchParams();
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.set(parameter.name, input.value);
    }
    const options = { method: method.toUpperCase() };
    if (area) Object.assign(options, { body: area.value, headers: { "Content-Type": "application/json" } });
    if (csrf) options.headers = { ...options.headers, "Flotilla-Csrf": csrf };
    answer.hidden = false;
    answer.textContent = "...";
    try {
      const response = await fetch(query.size ? `${target}?${query}` : target, options);
      const text = await response.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* It is no JSON. */ }
      answer.textContent = `${response.status} ${response.statusText}\n${shown}`;
    } catch (error) {
      answer.textContent = String(error);
    }
  });
  return form;
};

const show = (method, path, operation) => {
  const inside = make("div");
  inside.className = "inside";
  if (operation.description) inside.append(make("p", operation.description));
  const parameters = operation.parameters || [];
  if (parameters.length) {
    inside.append(make("h4", "Parameters"), fieldTable(parameters.map((each) => [each.name, each.required, each.schema])));
  }
  const content = operation.requestBody ? operation.requestBody.content : {};
  const body = content["application/json"] && content["application/json"].schema;
  if (body) inside.append(make("h4", "Body"), fieldTable(fieldsOf(body)));
  inside.append(make("h4", "Answers"));
  for (const [status, response] of Object.entries(operation.responses)) {
    const [kind, inner] = Object.entries(response.content)[0];
    inside.append(make("p", `${status}: ${response.description}`));
    if (status < "300") inside.append(kind === "application/json" ? fieldTable(fieldsOf(inner.schema)) : make("code", kind));
  }
  const isStream = Object.values(operation.responses).some((response) => "text/event-stream" in response.content);
  if (!isStream && (body || !operation.requestBody)) {
    inside.append(make("h4", "Try it"), tryForm(method, path, operation, body));
  }
  return make("details", "", make("summary", "", make("b", method.toUpperCase()), make("code", path),
    make("span", operation.summary)), inside);
};

const showSession = async () => {
  const session = await (await fetch("/session")).json();
  csrf = session.csrf;
  if (!csrf) return;
  const button = make("button", "Log out");
  button.addEventListener("click", async () => {
    const headers = { "Content-Type": "application/json", "Flotilla-Csrf": csrf };
    await fetch("/logout", { method: "POST", headers, body: "{}" });
    location.assign("/login");
  });
  document.getElementById("session").append(session.user, button);
};

const begin = async () => {
  await showSession();
  const about = document.getElementById("about");
  const api = await (await fetch("/openapi.json")).json();
  about.textContent = `Version ${api.info.version}. ${api.info.description} Fields with * are needed. Errors are ` +
    `{"code", "message", "retryable"}. `;
  const link = make("a", "/openapi.json");
  link.href = "/openapi.json";
  about.append(link);
  for (const tag of api.tags) {
    const section = make("section", "", make("h2", tag.name), make("p", tag.description));
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation.tags.includes(tag.name)) section.append(show(method, path, operation));
      }
    }
    document.querySelector("main").append(section);
  }
};

begin().catch((error) => { document.getElementById("about").textContent = `The description cannot be read: ${error}`; });
