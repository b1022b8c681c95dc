/** Every example, and the lines of the README, run as they are and print what they should. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { Node } from "./node.js";

const EXPECTED: Record<string, string> = {
  "dead-letters.js": "ann died after 1 attempt: no such address\nredriven: 1\nann is back\n",
  "produce.js": "duplicate: true, same offset: true\nstored 1000 records\n",
  "stream.js": "in order: true\ncommitted: 10\n",
  "transaction.js": "invoice for order 1 at offset 0\n",
  "worker.js": "ann at attempt 1, bob at attempt 2\n",
};
const FOLDER = join(import.meta.dirname, "examples");
const node = new Node();

before(() => node.start());
after(() => node.stop());

async function run(path: string): Promise<string> {
  const env = { ...process.env, FLOTILLA_SERVERS: node.address };
  return (await promisify(execFile)("node", [path], { env, timeout: 60_000 })).stdout;
}

test("every example is here", () => {
  assert.deepEqual(readdirSync(FOLDER).filter((name) => name.endsWith(".js")).sort(), Object.keys(EXPECTED));
});

for (const [name, printed] of Object.entries(EXPECTED)) {
  test(`the example ${name} prints what it should`, async () => assert.equal(await run(join(FOLDER, name)), printed));
}

test("the first lines of the README work", async () => {
  const readme = readFileSync(join(import.meta.dirname, "../README.md"), "utf8");
  const lines = /```ts\n(import.*?)```/s.exec(readme)![1]!;
  const path = join(import.meta.dirname, "readme.mjs");
  writeFileSync(path, lines.replace("127.0.0.1:7600", node.address));
  try {
    assert.equal(await run(path), "{ order: 1 } attempt 1\n");
  } finally {
    rmSync(path);
  }
});
