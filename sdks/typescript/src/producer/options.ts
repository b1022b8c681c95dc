/** Options of a producer. */

import { checkWritable, type Compression, COMPRESSIONS } from "../codec/compression.js";
import { BATCH_RECORDS_MAX, ENTRY_BYTES_MAX, KIB, MIB } from "../codec/record.js";
import { InvalidArgumentError } from "../errors.js";

export interface ProducerSettings {
  /**
   * How long the first record of a batch waits for others. By default few records leave at once while nothing is in
   * flight to their partition, and else with the next answer; many wait for more, 5 ms at the most.
   */
  lingerMs?: number;
  /** A batch is full at either; 256 KiB and 10,000 records. */
  batchBytes?: number;
  batchRecords?: number;
  /** Records without an answer; 32 MiB. Beyond that `send` waits. */
  bufferBytesMax?: number;
  /** Batches in flight to one partition; 8. Of very small batches there may be more, unless it is 1. */
  inFlightMax?: number;
  /** Node 22.15 and newer write zstd. */
  compression?: Compression;
  /** Records without an answer after this time fail. By default the client's. */
  timeoutMs?: number;
}

export interface ProducerOptions extends Required<ProducerSettings> {
  /** A batch of few records lingers only while another one is in flight. */
  isPrompt: boolean;
}

/** Throws InvalidArgumentError. */
export function producerOptions(settings: ProducerSettings, timeoutMs: number): ProducerOptions {
  const options = {
    lingerMs: settings.lingerMs ?? 5,
    isPrompt: settings.lingerMs === undefined,
    batchBytes: settings.batchBytes ?? 256 * KIB,
    batchRecords: settings.batchRecords ?? 10_000,
    bufferBytesMax: settings.bufferBytesMax ?? 32 * MIB,
    inFlightMax: settings.inFlightMax ?? 8,
    compression: settings.compression ?? ("none" as const),
    timeoutMs: settings.timeoutMs ?? timeoutMs,
  };
  if (!(options.compression in COMPRESSIONS)) {
    throw new InvalidArgumentError(`compression is one of ${Object.keys(COMPRESSIONS).join(", ")}`);
  }
  checkWritable(options.compression);
  for (const name of ["batchBytes", "batchRecords", "bufferBytesMax", "inFlightMax", "timeoutMs"] as const) {
    if (!(options[name] >= 1)) throw new InvalidArgumentError(`${name} is at least 1`);
  }
  if (!(options.lingerMs >= 0)) throw new InvalidArgumentError("lingerMs is at least 0");
  if (options.batchBytes > ENTRY_BYTES_MAX - 64 * KIB || options.batchRecords > BATCH_RECORDS_MAX) {
    throw new InvalidArgumentError(`a batch has at most ${BATCH_RECORDS_MAX} records and ${ENTRY_BYTES_MAX} bytes`);
  }
  return options;
}
