/**
 * Compression of a batch's columns: lz4 as raw blocks, zstd as one frame.
 *
 * zstd is part of Node from 22.15 on; before that `fzstd`, where it is installed, reads it, and nothing writes it.
 */

import * as zlib from "node:zlib";

import { InvalidArgumentError, UnsupportedError } from "../errors.js";

export const COMPRESSIONS = { none: 0, lz4: 1, zstd: 2 } as const;
export type Compression = keyof typeof COMPRESSIONS;

const RATIO_MAX = 200;
/** Below this size compressing costs more than it gains. */
const WORTHWHILE_BYTES = 1024;

type Codec = (data: Uint8Array) => Uint8Array;
const native = zlib as unknown as { zstdDecompressSync?: Codec; zstdCompressSync?: Codec };

async function zstdReader(): Promise<Codec | undefined> {
  if (native.zstdDecompressSync) return native.zstdDecompressSync;
  try {
    const name = "fzstd";
    return ((await import(name)) as { decompress: Codec }).decompress;
  } catch {
    return undefined;
  }
}

const readZstd = await zstdReader();

/** Throws UnsupportedError where nothing writes this compression. */
export function checkWritable(compression: Compression): void {
  if (compression === "zstd" && !native.zstdCompressSync) {
    throw new UnsupportedError("zstd is written by Node 22.15 and newer; lz4 by all");
  }
}

/** The compression that is used, as asked or none, and the bytes to store. */
export function compress(compression: Compression, body: Buffer): [number, Buffer] {
  if (compression === "none" || body.length < WORTHWHILE_BYTES) return [0, body];
  checkWritable(compression);
  const packed = compression === "lz4" ? compressLz4(body) : Buffer.from(native.zstdCompressSync!(body));
  if (packed.length >= body.length || packed.length * RATIO_MAX < body.length) return [0, body];
  return [COMPRESSIONS[compression], packed];
}

/** Exactly `bodyBytes` bytes. Throws InvalidArgumentError before it allocates more than is allowed. */
export function decompress(compression: number, packed: Buffer, bodyBytes: number, bytesMax: number): Buffer {
  if (bodyBytes > bytesMax || bodyBytes > packed.length * RATIO_MAX) {
    throw new InvalidArgumentError(`${packed.length} bytes must not open to ${bodyBytes}`);
  }
  let body: Buffer;
  if (compression === COMPRESSIONS.lz4) body = decompressLz4(packed, bodyBytes);
  else if (compression !== COMPRESSIONS.zstd) throw new InvalidArgumentError(`unknown compression ${compression}`);
  else if (!readZstd) throw new UnsupportedError("zstd is read by Node 22.15 and newer, or with fzstd installed");
  else body = Buffer.from(opened(readZstd, packed));
  if (body.length !== bodyBytes) {
    throw new InvalidArgumentError(`the batch says ${bodyBytes} bytes of columns and holds ${body.length}`);
  }
  return body;
}

function opened(read: Codec, packed: Buffer): Uint8Array {
  try {
    return read(packed);
  } catch (error) {
    throw new InvalidArgumentError(`the batch is no zstd frame: ${String(error)}`);
  }
}

export function decompressLz4(packed: Buffer, bodyBytes: number): Buffer {
  const body = Buffer.allocUnsafe(bodyBytes);
  let from = 0;
  let to = 0;
  const length = (nibble: number): number => {
    let found = nibble;
    for (let byte = 255; nibble === 15 && byte === 255; found += byte) byte = packed[from++] ?? broken();
    return found;
  };
  while (from < packed.length) {
    const token = packed[from++]!;
    const literals = length(token >> 4);
    if (from + literals > packed.length || to + literals > bodyBytes) broken();
    packed.copy(body, to, from, from + literals);
    from += literals;
    to += literals;
    if (from === packed.length) break;
    const distance = (packed[from] ?? 0) | ((packed[from + 1] ?? broken()) << 8);
    from += 2;
    const matched = length(token & 15) + 4;
    if (distance === 0 || distance > to || to + matched > bodyBytes) broken();
    // One byte after the other: a match may reach into what it writes.
    for (const end = to + matched; to < end; to++) body[to] = body[to - distance]!;
  }
  return body.subarray(0, to);
}

function broken(): never {
  throw new InvalidArgumentError("the batch is no lz4 block");
}

const HASH_BITS = 14;
/** The format wants the last five bytes as literals, and no match to begin within the last twelve. */
const LAST_LITERALS = 5;
const MATCH_MARGIN = 12;

/** One greedy pass with a table of positions by hash of four bytes. */
export function compressLz4(body: Buffer): Buffer {
  const packed = Buffer.allocUnsafe(body.length + Math.ceil(body.length / 255) + 16);
  const positions = new Int32Array(1 << HASH_BITS).fill(-1);
  let to = 0;
  let anchor = 0;
  const extra = (count: number): void => {
    for (; count >= 255; count -= 255) packed[to++] = 255;
    packed[to++] = count;
  };
  const sequence = (end: number, distance: number, matched: number): void => {
    const literals = end - anchor;
    const rest = matched - 4;
    packed[to++] = (Math.min(literals, 15) << 4) | (distance ? Math.min(rest, 15) : 0);
    if (literals >= 15) extra(literals - 15);
    body.copy(packed, to, anchor, end);
    to += literals;
    if (!distance) return;
    packed[to++] = distance & 255;
    packed[to++] = distance >> 8;
    if (rest >= 15) extra(rest - 15);
  };
  for (let at = 0; at < body.length - MATCH_MARGIN; ) {
    const word = body.readInt32LE(at);
    const slot = Math.imul(word, 0x9e3779b1) >>> (32 - HASH_BITS);
    const found = positions[slot]!;
    positions[slot] = at;
    if (found < 0 || at - found > 0xffff || body.readInt32LE(found) !== word) {
      at++;
      continue;
    }
    let matched = 4;
    while (at + matched < body.length - LAST_LITERALS && body[found + matched] === body[at + matched]) matched++;
    sequence(at, at - found, matched);
    at += matched;
    anchor = at;
  }
  sequence(body.length, 0, 4);
  return packed.subarray(0, to);
}
