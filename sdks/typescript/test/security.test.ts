/** Log-ins at a real node with TLS and rights: passwords, certificates and tokens. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { generateKeyPairSync, sign } from "node:crypto";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Client, DeadlineError, NotFoundError, PermissionDeniedError, UnauthenticatedError } from "flotilla-mq";

import { COMMAND, Node } from "./node.js";

const node = new Node([]);
const at = (name: string): string => join(node.folder, name);
const { publicKey, privateKey } = generateKeyPairSync("ed25519");
let admin: Client;

function flotilla(...words: string[]): void {
  execFileSync(COMMAND[0]!, [...COMMAND.slice(1), ...words], { stdio: "pipe" });
}

function secret(name: string, text: string): string {
  writeFileSync(at(name), `${text}\n`, { mode: 0o600 });
  return at(name);
}

/** A token of the issuer that the node trusts. */
function token(user: string, seconds: number): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const text = `${part({ alg: "EdDSA", kid: "k1", typ: "JWT" })}.${part({ sub: user, aud: "flotilla", iat: now, exp: now + seconds })}`;
  return `${text}.${sign(null, Buffer.from(text), privateKey).toString("base64url")}`;
}

before(async () => {
  flotilla("cert", "init", "--folder", at("ca"));
  flotilla("cert", "issue", "--node", "1", "--host", "127.0.0.1", "--folder", at("ca"));
  flotilla("cert", "issue", "--user", "carol", "--folder", at("ca"));
  writeFileSync(at("keys.json"), JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k1" }] }));
  node.options.push(
    "--tls-certificate", at("ca/node1.crt"), "--tls-key", at("ca/node1.key"), "--tls-ca", at("ca/ca.crt"),
    "--tls-client-certificates", "optional", "--authentication", "--token-keys", at("keys.json"),
  );
  await node.start();
  const nobody = new Client(node.address, { tls: { ca: at("ca/ca.crt") } });
  await nobody.admin.users.createAdministrator("root", "a long password");
  await nobody.close();
  admin = new Client(node.address, {
    tls: { ca: at("ca/ca.crt") }, user: "root", passwordFile: secret("password", "a long password"),
  });
  await admin.createTopic("orders");
  for (const user of ["alice", "carol"]) await admin.admin.grants.add(user, "produce", "orders");
});
after(async () => {
  await admin.close();
  await node.stop();
});

function connect(options: object): Client {
  return new Client(node.address, { tls: { ca: at("ca/ca.crt") }, timeoutMs: 20_000, ...options });
}

test("a user proves its password, and does what is granted to it", async () => {
  await admin.admin.users.create("alice", "her password");
  assert.deepEqual((await admin.admin.users.list()).map((user) => user.name), ["alice", "root"]);
  await using alice = connect({ credentials: { user: "alice", password: "her password" } });
  assert.equal((await alice.produce("orders", "1")).topic, "orders");
  await assert.rejects(alice.deleteTopic("orders"), PermissionDeniedError);
  await admin.admin.users.setPassword("alice", "another");
  await using late = connect({ credentials: () => ({ user: "alice", password: "her password" }) });
  await assert.rejects(late.produce("orders", "1"), UnauthenticatedError);
});

test("nobody, a wrong token and an expired one are refused; a right one is a log-in", async () => {
  await using nobody = connect({});
  await assert.rejects(nobody.produce("orders", "1"), UnauthenticatedError);
  for (const text of ["no.token.this", token("alice", -60)]) {
    await using refused = connect({ tokenFile: secret("token", text) });
    await assert.rejects(refused.produce("orders", "1"), UnauthenticatedError);
  }
  await using alice = connect({ tokenFile: secret("token", token("alice", 600)) });
  await alice.produce("orders", "1");
  await assert.rejects(alice.describeTopic("other"), NotFoundError);
});

test("a certificate names its user, and a file that others may read is refused", async () => {
  const tls = { ca: at("ca/ca.crt"), certificate: at("ca/carol.crt"), key: at("ca/carol.key") };
  await using carol = connect({ tls });
  await carol.produce("orders", "1");
  chmodSync(at("token"), 0o644);
  await using careless = connect({ tokenFile: at("token") });
  await assert.rejects(careless.produce("orders", "1"), UnauthenticatedError);
});

test("a broker whose authority is not trusted is not spoken to, nor one in the clear", async () => {
  for (const options of [{ tls: {} }, {}]) {
    await using client = new Client(node.address, { ...options, timeoutMs: 1_500 });
    await assert.rejects(client.topics(), DeadlineError);
  }
});
