/** BLAKE2b with a digest of eight bytes, which Node does not offer: names of dead-letter topics may end with one. */

const MASK = (1n << 64n) - 1n;
const IV = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const SIGMA = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "9057fe2cd1b34a68",
].concat(["2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"]);
const COLUMNS = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
const DIAGONALS = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const DIGEST_BYTES = 8;
const BLOCK_BYTES = 128;

export function blake2b64(data: Uint8Array): string {
  const h = [...IV];
  h[0]! ^= 0x01010000n ^ BigInt(DIGEST_BYTES);
  const blocks = Math.max(Math.ceil(data.length / BLOCK_BYTES), 1);
  for (let block = 0; block < blocks; block++) {
    const padded = Buffer.alloc(BLOCK_BYTES);
    padded.set(data.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES));
    const isLast = block === blocks - 1;
    mix(h, padded, BigInt(isLast ? data.length : (block + 1) * BLOCK_BYTES), isLast);
  }
  const digest = Buffer.alloc(DIGEST_BYTES);
  digest.writeBigUInt64LE(h[0]!);
  return digest.toString("hex");
}

function mix(h: bigint[], block: Buffer, counted: bigint, isLast: boolean): void {
  const m = Array.from({ length: 16 }, (_, at) => block.readBigUInt64LE(at * 8));
  const v = [...h, ...IV];
  v[12]! ^= counted;
  if (isLast) v[14]! ^= MASK;
  for (let round = 0; round < 12; round++) {
    const order = [...SIGMA[round % 10]!].map((digit) => parseInt(digit, 16));
    [...COLUMNS, ...DIAGONALS].forEach(([a, b, c, d], at) => {
      for (const [x, left, right] of [[m[order[2 * at]!]!, 32n, 24n], [m[order[2 * at + 1]!]!, 16n, 63n]] as const) {
        v[a!] = (v[a!]! + v[b!]! + x) & MASK;
        v[d!] = rotated(v[d!]! ^ v[a!]!, left);
        v[c!] = (v[c!]! + v[d!]!) & MASK;
        v[b!] = rotated(v[b!]! ^ v[c!]!, right);
      }
    });
  }
  for (let at = 0; at < 8; at++) h[at]! ^= v[at]! ^ v[at + 8]!;
}

function rotated(word: bigint, bits: bigint): bigint {
  return ((word >> bits) | (word << (64n - bits))) & MASK;
}
