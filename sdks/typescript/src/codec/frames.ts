/**
 * Frames between clients and brokers, as `proto/client.proto` lays them out: a length, the length of the envelope, the
 * envelope, and after it record batches as they are, outside of protobuf.
 */

import { fromBinary, type Message, toBinary } from "@bufbuild/protobuf";

import { errorOf, FlotillaError, InvalidArgumentError, UnknownError } from "../errors.js";
import { type Request, RequestSchema, ResponseSchema } from "../generated/client_pb.js";
import type { RequestFields } from "./operations.js";
import { ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX } from "./record.js";
import { cut, type Deliveries, deliveriesOf, leaseRanges, toMessage, toPlain } from "./values.js";

/** The id of an error that answers no single request. */
export const NO_CORRELATION = 0;
const LENGTH_BYTES = 4;
const REQUESTS = new Map(RequestSchema.fields.map((field) => [field.localName, field]));

export interface Answer {
  correlationId: number;
  metadataIndex: number;
  /** The name of the reply in the contract; empty for an error. */
  name: string;
  value: unknown;
}

type Columns = { leaseIds: bigint[]; firsts: number[]; counts: number[] };

/** The pieces of one frame, to be written in order. Throws InvalidArgumentError. */
export function encodeRequest<O extends string>(
  correlationId: number,
  operation: O,
  fields: RequestFields<O>,
  metadataIndex = 0,
  attachment?: Uint8Array,
): Uint8Array[] {
  const field = REQUESTS.get(operation);
  if (field?.fieldKind !== "message") throw new InvalidArgumentError(`there is no operation ${operation}`);
  let envelope: Uint8Array;
  try {
    const value = toMessage(field.message, fields as Record<string, unknown>);
    const message = toMessage(RequestSchema, { correlationId, metadataIndex }) as Request;
    message.body = { case: operation, value } as unknown as Request["body"];
    envelope = toBinary(RequestSchema, message);
  } catch (error) {
    if (error instanceof FlotillaError) throw error;
    throw new InvalidArgumentError(`${operation} cannot be sent: ${String(error)}`, { cause: error });
  }
  const length = LENGTH_BYTES + envelope.length + (attachment?.length ?? 0);
  if (envelope.length > ENVELOPE_BYTES_MAX || length > FRAME_BYTES_MAX) {
    throw new InvalidArgumentError(`a frame of ${length} bytes is over the limit`);
  }
  const head = Buffer.allocUnsafe(2 * LENGTH_BYTES + envelope.length);
  head.writeUInt32BE(length, 0);
  head.writeUInt32BE(envelope.length, LENGTH_BYTES);
  head.set(envelope, 2 * LENGTH_BYTES);
  return attachment ? [head, attachment] : [head];
}

/** What a broker has answered: an error is returned, not thrown. Throws InvalidArgumentError for what no broker sends. */
export function decodeResponse(frame: Buffer): Answer {
  const end = LENGTH_BYTES + (frame.length < LENGTH_BYTES ? Infinity : frame.readUInt32BE(0));
  if (end > frame.length) throw new InvalidArgumentError("the envelope of a frame is longer than the frame");
  let envelope;
  try {
    envelope = fromBinary(ResponseSchema, frame.subarray(LENGTH_BYTES, end));
  } catch (error) {
    throw new InvalidArgumentError(`the envelope of a response is malformed: ${String(error)}`);
  }
  const { body } = envelope;
  const answer = { correlationId: Number(envelope.correlationId), metadataIndex: Number(envelope.metadataIndex) };
  if (body.case === undefined) return { ...answer, name: "", value: new UnknownError("the kind of the answer is unknown") };
  if (body.case === "error") return { ...answer, name: "", value: errorOf(body.value) };
  const field = ResponseSchema.field[body.case]!;
  if (field.fieldKind !== "message") throw new InvalidArgumentError("the answer is no message");
  const value = toPlain(field.message, body.value as Message);
  return { ...answer, name: body.case, value: complete(body.case, value, frame.subarray(end)) };
}

/** Adds what follows the envelope, and turns columns into rows. */
function complete(name: string, value: Record<string, unknown>, attachment: Buffer): unknown {
  switch (name) {
    case "fetched":
      return { ...value, batches: cut(attachment, value.batchBytes as number[]) };
    case "polled":
    case "pushed":
      return { ...value, deliveries: deliveriesOf(value.deliveries as Deliveries, attachment) };
    case "settled":
      return {
        expired: leaseRanges(value.expired as Columns | undefined),
        settled: leaseRanges(value.settled as Columns | undefined),
        term: value.term,
      };
    case "explanation":
      return { ...value, batch: attachment };
    default:
      if (attachment.length) throw new InvalidArgumentError(`nothing may follow the envelope of ${name}`);
      return value;
  }
}

/** Cuts a stream of bytes into frames. A length over the limit is refused when its four bytes have come. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  // How many bytes the next step needs: a length, or a length and its frame.
  #needed = LENGTH_BYTES;

  /** The frames that a chunk completes; slices of it where possible. Throws InvalidArgumentError. */
  feed(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return [];
    let data = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    const frames: Buffer[] = [];
    this.#needed = LENGTH_BYTES;
    while (data.length >= LENGTH_BYTES) {
      const length = data.readUInt32BE(0);
      if (length > FRAME_BYTES_MAX) throw new InvalidArgumentError(`a frame of ${length} bytes is over the limit`);
      const end = LENGTH_BYTES + length;
      if (data.length < end) {
        this.#needed = end;
        break;
      }
      frames.push(data.subarray(LENGTH_BYTES, end));
      data = data.subarray(end);
    }
    this.#chunks = data.length ? [data] : [];
    this.#bytes = data.length;
    return frames;
  }
}
