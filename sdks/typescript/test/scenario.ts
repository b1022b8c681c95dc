/** What both runners of scenarios share: values, variables and expectations, as conformance/README.md explains them. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = { [key: string]: Json };
export type Variables = Record<string, unknown>;

export class Mismatch extends Error {}

export const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

export function isBytes(value: unknown): value is { hex: string } | { repeat: string; count: number } {
  if (typeof value !== "object" || value === null) return false;
  const keys = Object.keys(value).sort().join();
  return keys === "hex" || keys === "count,repeat";
}

export function toBytes(value: unknown): Buffer {
  if (typeof value === "string") return Buffer.from(value);
  if (!isBytes(value)) throw new Error(`${JSON.stringify(value)} are no bytes`);
  return "hex" in value ? Buffer.from(value.hex, "hex") : Buffer.from(value.repeat.repeat(value.count));
}

export function substitute(value: unknown, variables: Variables): unknown {
  if (Array.isArray(value)) return value.map((item) => substitute(item, variables));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, substitute(item, variables)]));
  }
  if (typeof value !== "string") return value;
  const alone = /^\$(\w+)$/.exec(value);
  if (alone) return variables[alone[1]!];
  return value.replace(/\$(\w+)/g, (_, name: string) => String(variables[name]));
}

export function match(expected: unknown, found: unknown, place = "reply"): void {
  const differs = (): never => {
    throw new Mismatch(`${place} is ${show(found)}, not ${show(expected)}`);
  };
  if (typeof found === "bigint") {
    if (BigInt(expected as number) !== found) differs();
  } else if (found instanceof Uint8Array) {
    if (typeof expected !== "string" && !isBytes(expected)) differs();
    if (Buffer.compare(toBytes(expected), found)) differs();
  } else if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) differs();
    expected.forEach((item, at) => match(item, (found as unknown[])[at], `${place}[${at}]`));
  } else if (typeof expected === "object" && expected !== null) {
    const keys = Object.keys(expected).join();
    const values = expected as { above: number; keys: string[] };
    if (keys === "above") {
      if (!((found as number) > values.above)) differs();
    } else if (keys === "keys") {
      if (JSON.stringify(Object.keys(found as object).sort()) !== JSON.stringify(values.keys)) differs();
    } else {
      for (const [key, item] of Object.entries(expected)) {
        if (typeof found !== "object" || found === null || !(key in found)) throw new Mismatch(`${place} has no ${key}`);
        match(item, (found as Variables)[key], `${place}.${key}`);
      }
    }
  } else if (expected !== found && !(expected === null && found === undefined)) differs();
}

export function show(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? `${each}n` : each)) ?? String(value);
}
