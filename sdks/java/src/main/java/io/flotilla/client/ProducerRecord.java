package io.flotilla.client;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * A record to produce ({@code Record} in Python). Everything but the payload is optional.
 *
 * <pre>{@code
 * ProducerRecord.of("order 1").key("customer 7").priority(5).delayMs(60_000)
 * }</pre>
 *
 * <p>The setters change this record and return it. Do not change a record after it was sent.
 */
public final class ProducerRecord {
  private static final int PRIORITY_MAX = 7;
  /** A request has at most 4 MiB over gRPC; this leaves room for what surrounds one record. */
  private static final int BYTES_MAX = (4 << 20) - (64 << 10);

  final byte[] payload;
  byte[] key;
  final List<Header> headers = new ArrayList<>();
  int partition = -1;
  int priority;
  int contentType;
  long timestampMs;
  long delayMs;
  long deliverAtMs;
  long ttlMs;
  byte[] idempotencyKey = new byte[0];
  int maxDeliveries;

  private ProducerRecord(byte[] payload) {
    this.payload = payload;
  }

  /** A record with these bytes, which are not copied. */
  public static ProducerRecord of(byte[] payload) {
    return new ProducerRecord(payload);
  }

  /** A record with text, written as UTF-8. */
  public static ProducerRecord of(String payload) {
    return new ProducerRecord(payload.getBytes(StandardCharsets.UTF_8));
  }

  /** Records with a key go to the partition of that key, in order. The empty key is a key like any other. */
  public ProducerRecord key(byte[] key) {
    this.key = key;
    return this;
  }

  /** The same with text, written as UTF-8. */
  public ProducerRecord key(String key) {
    return key(key.getBytes(StandardCharsets.UTF_8));
  }

  /** Adds a header. */
  public ProducerRecord header(String name, byte[] value) {
    headers.add(new Header(name, value));
    return this;
  }

  /** Adds a header with text, written as UTF-8. */
  public ProducerRecord header(String name, String value) {
    headers.add(Header.of(name, value));
    return this;
  }

  /** The partition, instead of the one of the key or any. */
  public ProducerRecord partition(int partition) {
    this.partition = least(0, partition, "partition");
    return this;
  }

  /** 0 to 7; a higher one is delivered earlier. */
  public ProducerRecord priority(int priority) {
    if (priority < 0 || priority > PRIORITY_MAX) {
      throw FlotillaException.invalid("a priority is 0 to 7, not " + priority);
    }
    this.priority = priority;
    return this;
  }

  /** 0 bytes, 1 text, 2 JSON, 3 protobuf, 4 Avro, 5 Arrow; from 128 to 255 your own. */
  public ProducerRecord contentType(int contentType) {
    if (contentType < 0 || contentType > 255) {
      throw FlotillaException.invalid("a content type is 0 to 255, not " + contentType);
    }
    this.contentType = contentType;
    return this;
  }

  /** When it was made; by default now, by the clock of this machine. */
  public ProducerRecord timestampMs(long timestampMs) {
    this.timestampMs = least(0, timestampMs, "timestampMs");
    return this;
  }

  /** Not delivered to queue groups before this delay is over, counted by the clock of this machine. */
  public ProducerRecord delayMs(long delayMs) {
    this.delayMs = least(0, delayMs, "delayMs");
    return this;
  }

  /** Not delivered to queue groups before this time. */
  public ProducerRecord deliverAt(Instant time) {
    this.deliverAtMs = least(0, time.toEpochMilli(), "deliverAt");
    return this;
  }

  /** Expires after this time, counted from its timestamp; 0: never. */
  public ProducerRecord ttlMs(long ttlMs) {
    this.ttlMs = least(0, ttlMs, "ttlMs");
    return this;
  }

  /** Stored once, however often it is sent within the topic's deduplication window. */
  public ProducerRecord idempotencyKey(String idempotencyKey) {
    this.idempotencyKey = idempotencyKey.getBytes(StandardCharsets.UTF_8);
    return this;
  }

  /** Attempts before the dead-letter topic; 0: as the topic says. */
  public ProducerRecord maxDeliveries(int maxDeliveries) {
    if (maxDeliveries < 0 || maxDeliveries > 0xFFFF) {
      throw FlotillaException.invalid("maxDeliveries is 0 to 65535, not " + maxDeliveries);
    }
    this.maxDeliveries = maxDeliveries;
    return this;
  }

  /** Settles the times. Throws INVALID_ARGUMENT when no broker would take it over gRPC. */
  void prepare() {
    if (delayMs > 0 && deliverAtMs > 0) {
      throw FlotillaException.invalid("say either delayMs or deliverAt");
    }
    if (sizeBytes() > BYTES_MAX) {
      throw FlotillaException.invalid("a record has at most " + BYTES_MAX + " bytes over gRPC, not " + sizeBytes());
    }
    long nowMs = System.currentTimeMillis();
    if (timestampMs == 0) {
      timestampMs = nowMs;
    }
    if (delayMs > 0) {
      deliverAtMs = nowMs + delayMs;
      delayMs = 0;
    }
  }

  /** About what it takes in a batch. */
  int sizeBytes() {
    int found = 16 + payload.length + (key == null ? 0 : key.length) + idempotencyKey.length;
    for (Header header : headers) {
      found += 12 + 3 * header.name().length() + header.value().length;
    }
    return found;
  }

  static int least(int least, int value, String name) {
    return (int) least((long) least, value, name);
  }

  static long least(long least, long value, String name) {
    if (value < least) {
      throw FlotillaException.invalid(name + " is at least " + least + ", not " + value);
    }
    return value;
  }
}
