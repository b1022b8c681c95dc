package io.flotilla.client;

/** Options of a producer. The setters change these options and return them. */
public final class ProducerOptions {
  long lingerMs;
  int batchBytes = 256 << 10;
  int batchRecords = 10_000;
  long bufferBytesMax = 32 << 20;
  long timeoutMs;

  /** How long the first record of a batch waits for others; by default not, while nothing is in flight. */
  public ProducerOptions lingerMs(long lingerMs) {
    this.lingerMs = ProducerRecord.least(0, lingerMs, "lingerMs");
    return this;
  }

  /** A batch is full at this size; 256 KiB, up to 3 MiB. */
  public ProducerOptions batchBytes(int batchBytes) {
    if (batchBytes < 1 || batchBytes > 3 << 20) {
      throw FlotillaException.invalid("batchBytes is 1 to " + (3 << 20));
    }
    this.batchBytes = batchBytes;
    return this;
  }

  /** Or with this many records; 10,000. */
  public ProducerOptions batchRecords(int batchRecords) {
    if (batchRecords < 1 || batchRecords > 10_000) {
      throw FlotillaException.invalid("batchRecords is 1 to 10000");
    }
    this.batchRecords = batchRecords;
    return this;
  }

  /** Records without an answer; 32 MiB. Beyond that {@code send} waits. */
  public ProducerOptions bufferBytesMax(long bufferBytesMax) {
    this.bufferBytesMax = ProducerRecord.least(1, bufferBytesMax, "bufferBytesMax");
    return this;
  }

  /** Records without an answer after this time fail; by default the client's. */
  public ProducerOptions timeoutMs(long timeoutMs) {
    this.timeoutMs = ProducerRecord.least(1, timeoutMs, "timeoutMs");
    return this;
  }
}
