/** Start offsets and committed offsets, looked up. */

import type { Session } from "../core/session.js";
import type { Limits } from "../core/time.js";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { EARLIEST, LATEST, type StartAt } from "../filter.js";

export type Asking = Limits & { timeoutMs: number };

/** A place in one partition. */
export interface Place {
  topic: string;
  partition: number;
  topicId?: number;
}

/** The offset of a place, or of the first record at or after a time; -1: all records are older. */
export async function findOffset(session: Session, place: Place, at: StartAt, asking: Asking): Promise<number> {
  if (typeof at === "number") {
    if (!Number.isSafeInteger(at) || at < 0) throw new InvalidArgumentError(`${at} is not an offset`);
    return at;
  }
  const timestampMs = at === "earliest" ? EARLIEST : at === "latest" ? LATEST : at.getTime();
  return (await session.call("listOffsets", { ...place, timestampMs }, asking)).offset;
}

/** The committed offset of a group, -1 if it never committed, and as of when. */
export async function readPosition(
  session: Session,
  group: string,
  place: Place,
  asking: Asking,
): Promise<{ offset: number; asOf: number }> {
  try {
    return await session.call("readOffset", { group, ...place, isOptional: true }, asking);
  } catch (error) {
    // Of a broker of an earlier release an unknown group is no error, but an unknown topic is.
    if (error instanceof NotFoundError && session.routes.topics.has(place.topic)) return { offset: -1, asOf: 0 };
    throw error;
  }
}

/** The committed offset of a group; undefined: it never committed. */
export async function readOffset(session: Session, group: string, place: Place, asking: Asking): Promise<number | undefined> {
  const { offset } = await readPosition(session, group, place, asking);
  return offset >= 0 ? offset : undefined;
}

/** Where a reader starts: at a place, or else at the oldest record. */
export async function startOffset(session: Session, place: Place, at: StartAt | undefined, asking: Asking): Promise<number> {
  const found = await findOffset(session, place, at ?? "earliest", asking);
  return found >= 0 ? found : findOffset(session, place, "latest", asking);
}
