/** Without a broker: checksums, compression, batches there and back, and files with secrets. */

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { BatchView } from "../dist/codec/batch-view.js";
import { encodeBatch, renumber } from "../dist/codec/batch-writer.js";
import { blake2b64 } from "../dist/codec/blake2b.js";
import { compressLz4, decompressLz4 } from "../dist/codec/compression.js";
import { crc32c, crc32cByTable } from "../dist/codec/crc32c.js";
import { decodeResponse, encodeRequest, FrameReader } from "../dist/codec/frames.js";
import type { WireRecord } from "../dist/codec/record.js";
import { readSecret } from "../dist/core/credentials.js";
import { InvalidArgumentError, UnauthenticatedError } from "../dist/errors.js";

const PLAIN: WireRecord = {
  payload: Buffer.from("hello"), headers: [], timestampMs: 1_700_000_000_123, priority: 0, contentType: 0, deliverAtMs: 0,
  ttlMs: 0, maxDeliveries: 0,
};

function fieldsOf(view: BatchView, at: number): WireRecord {
  return {
    payload: view.payload(at), key: view.key(at), headers: view.headers(at), timestampMs: view.timestampMs(at),
    priority: view.priority, contentType: view.contentType(at), deliverAtMs: view.deliverAtMs, ttlMs: view.ttlMs(at),
    idempotencyKey: view.idempotencyKey(at), maxDeliveries: view.maxDeliveries(at),
  };
}

test("CRC32C has its published check value, in one piece and in two", () => {
  const data = Buffer.from("123456789");
  assert.equal(crc32cByTable(data), 0xe3069283);
  assert.equal(crc32cByTable(data.subarray(4), crc32cByTable(data.subarray(0, 4))), 0xe3069283);
  assert.equal(crc32cByTable(Buffer.alloc(32)), 0x8a9136aa);
});

test("CRC32C of the native library is that of the tables", { skip: crc32c === crc32cByTable && "@node-rs/crc32 is not installed" }, () => {
  for (let length = 0; length < 300; length++) {
    // Not at the beginning of its memory, and behind other bytes.
    const data = new Uint8Array(Array.from({ length: length + 3 }, (_, at) => (at * 167 + length * 31) & 255)).subarray(3);
    assert.equal(crc32c(data), crc32cByTable(data));
    assert.equal(crc32c(data, 0xe3069283), crc32cByTable(data, 0xe3069283));
  }
});

test("BLAKE2b of eight bytes is that of Python's hashlib", () => {
  assert.equal(blake2b64(Buffer.from("a/b")), "0debd2558bca8fa0");
  assert.equal(blake2b64(Buffer.alloc(300, "x")).length, 16);
});

test("lz4 blocks open to what was packed", () => {
  for (const text of ["abc".repeat(1000), "x".repeat(70_000), Buffer.from(Array.from({ length: 5000 }, (_, at) => (at * 7919) % 251)).toString("latin1")]) {
    const body = Buffer.from(text, "latin1");
    assert.deepEqual(decompressLz4(compressLz4(body), body.length), body);
  }
  assert.throws(() => decompressLz4(Buffer.from([0x1f, 1, 0xff, 0xff]), 100), InvalidArgumentError);
});

for (const compression of ["none", "lz4"] as const) {
  test(`every field of a record comes back, with compression ${compression}`, () => {
    const records: WireRecord[] = [
      { ...PLAIN, payload: Buffer.alloc(2000, "z") },
      { ...PLAIN, key: Buffer.from("k"), headers: [["a", Buffer.from("1")], ["ü", Buffer.from("2")]], timestampMs: 5 },
      { ...PLAIN, key: Buffer.alloc(0), ttlMs: 2 ** 40, contentType: 200, maxDeliveries: 65_535 },
      { ...PLAIN, idempotencyKey: Buffer.from("once"), payload: Buffer.alloc(0) },
    ];
    const batch = encodeBatch(records, compression, { producerId: 2n ** 62n, epoch: 3, sequence: 4 });
    const view = new BatchView(batch);
    assert.equal(view.count, 4);
    records.forEach((record, at) => {
      assert.deepEqual(fieldsOf(view, at), { key: undefined, idempotencyKey: undefined, ...record });
    });
    renumber(batch, { producerId: 1n, epoch: 9, sequence: 7 });
    assert.equal(new BatchView(batch).count, 4);
  });
}

test("a damaged batch is refused, whichever byte is", () => {
  const batch = encodeBatch([{ ...PLAIN, key: Buffer.from("k") }, PLAIN], "none");
  for (let at = 12; at < batch.length; at++) {
    const damaged = Buffer.from(batch);
    damaged[at]! ^= 0x55;
    assert.throws(() => new BatchView(damaged), InvalidArgumentError, `byte ${at}`);
  }
  for (let length = 0; length < batch.length; length++) {
    assert.throws(() => new BatchView(batch.subarray(0, length)), InvalidArgumentError);
  }
});

test("records of a batch share their priority", () => {
  assert.throws(() => encodeBatch([PLAIN, { ...PLAIN, priority: 1 }], "none"), InvalidArgumentError);
});

test("frames are cut from chunks of any size", () => {
  const frames = [encodeRequest(1, "ping", {}), encodeRequest(2, "produce", { topic: "t", partition: 1 }, 0, Buffer.from("batch"))];
  const bytes = Buffer.concat(frames.flat());
  for (const size of [1, 3, 7, bytes.length]) {
    const reader = new FrameReader();
    const found: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...reader.feed(bytes.subarray(at, at + size)));
    assert.deepEqual(found, frames.map((pieces) => Buffer.concat(pieces).subarray(4)));
  }
  assert.throws(() => new FrameReader().feed(Buffer.from([255, 0, 0, 0])), InvalidArgumentError);
});

test("a value that does not fit the contract is refused before it is sent", () => {
  assert.throws(() => encodeRequest(1, "fetch", { topic: "t", partition: 0, offset: -1 }), InvalidArgumentError);
  assert.throws(() => encodeRequest(1, "fetch", { topic: "t", partition: 0, offset: 0.5 }), InvalidArgumentError);
  assert.throws(() => encodeRequest(1, "fetch", { topic: "t", partition: 2 ** 40 }), InvalidArgumentError);
  assert.throws(() => decodeResponse(Buffer.from([0, 0, 0, 9, 1])), InvalidArgumentError);
});

test("a secret is the first line of a file that only its owner may read", () => {
  const folder = mkdtempSync(join(tmpdir(), "flotilla-ts-"));
  const path = join(folder, "secret");
  writeFileSync(path, "a.b.c\nmore\n", { mode: 0o600 });
  assert.equal(readSecret(path), "a.b.c");
  chmodSync(path, 0o640);
  assert.throws(() => readSecret(path), UnauthenticatedError);
  rmSync(folder, { recursive: true });
  assert.throws(() => readSecret(path), UnauthenticatedError);
});
