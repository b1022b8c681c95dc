/** What consumers ask for: where to begin, which partitions, and only messages of some types or with some headers. */

import type { Topic } from "./core/routes.js";
import { InvalidArgumentError } from "./errors.js";
import { headerPairs, type HeadersInit } from "./producer/fields.js";

/** Where a group begins: an offset, a time, or one of two places that move. */
export type StartAt = number | Date | "earliest" | "latest";

export const EARLIEST = -2;
export const LATEST = -1;
export const FROM_OFFSET = 1;
export const FROM_TIME = 2;

export interface Filter {
  /** Only messages of these types: the value of their header `flotilla-task-type`, "" for those without one. */
  types?: readonly string[];
  /** Only messages that have all of these headers. */
  headers?: HeadersInit;
}

/** As the protocol has it. Throws InvalidArgumentError. */
export interface WireFilter {
  types: string[];
  headers: { name: string; value: Uint8Array }[];
}

export function readFilter(filter: Filter): WireFilter {
  const headers = filter.headers ? headerPairs(filter.headers).map(([name, value]) => ({ name, value })) : [];
  if (filter.types && !filter.types.length) throw new InvalidArgumentError("types names at least one type");
  if (filter.headers && !headers.length) throw new InvalidArgumentError("headers names at least one header");
  return { types: [...(filter.types ?? [])], headers };
}

export function takesAll(filter: WireFilter): boolean {
  return !filter.types.length && !filter.headers.length;
}

/** Throws InvalidArgumentError. */
export function readStart(start: StartAt | undefined): { kind: number; value: number } {
  if (start === undefined || start === "earliest") return { kind: EARLIEST, value: 0 };
  if (start === "latest") return { kind: LATEST, value: 0 };
  if (start instanceof Date && start.getTime() >= 0) return { kind: FROM_TIME, value: start.getTime() };
  if (typeof start === "number" && Number.isSafeInteger(start) && start >= 0) return { kind: FROM_OFFSET, value: start };
  throw new InvalidArgumentError(`a group begins at an offset, a time, earliest or latest, not at ${String(start)}`);
}

/** The chosen partitions, or all. Throws InvalidArgumentError. */
export function chosenPartitions(topic: Topic, chosen: readonly number[] | undefined): number[] {
  const numbers = topic.partitions.map((part) => part.number);
  const missing = chosen?.find((number) => !numbers.includes(number));
  if (missing !== undefined) {
    throw new InvalidArgumentError(`topic ${topic.name} has no partition ${missing}, only ${numbers.length} of them`);
  }
  return chosen ? [...new Set(chosen)] : numbers;
}

export function atLeast(least: number, name: string, value: number): number {
  if (!(value >= least)) throw new InvalidArgumentError(`${name} is at least ${least}`);
  return value;
}
