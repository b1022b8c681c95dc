package io.flotilla.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import java.util.zip.CRC32C;

/**
 * Records to a batch, in the format of docs/reference/batch-format.md, without compression.
 *
 * <p>A batch carries the id and the sequence of its producer, by which brokers recognise one that is sent again.
 */
final class BatchEncoder {
  private static final int HEADER_BYTES = 64;
  private static final int COLUMNS_AT = 96;
  private static final int CRC_FROM = 20;
  private static final short MAGIC = 0x4C46;

  private static final int TIMESTAMPS = 1;
  private static final int TTLS = 1 << 1;
  private static final int KEYS = 1 << 2;
  private static final int KEY_VALIDITY = 1 << 3;
  private static final int IDEMPOTENCY_KEYS = 1 << 4;
  private static final int HEADERS = 1 << 5;
  private static final int MAX_DELIVERIES = 1 << 6;
  private static final int CONTENT_TYPES = 1 << 7;

  private final List<ProducerRecord> records;
  private ByteBuffer out;
  private int columns;

  private BatchEncoder(List<ProducerRecord> records) {
    this.records = records;
  }

  /** The batch of records that share priority and deliver-at; {@code sequence} is that of the first. */
  static ByteString encode(List<ProducerRecord> records, long producerId, int sequence) {
    return UnsafeByteOperations.unsafeWrap(encode(records, producerId, 0, sequence));
  }

  static byte[] encode(List<ProducerRecord> records, long producerId, int producerEpoch, int sequence) {
    return new BatchEncoder(records).write(producerId, producerEpoch, sequence);
  }

  /** The partition of a key, equal in every client: CRC32C modulo the partitions the topic was created with. */
  static int partitionOf(byte[] key, int partitions) {
    CRC32C crc = new CRC32C();
    crc.update(key, 0, key.length);
    return (int) (crc.getValue() % partitions);
  }

  private byte[] write(long producerId, int producerEpoch, int sequence) {
    out = ByteBuffer.allocate(sizeMax()).order(ByteOrder.LITTLE_ENDIAN);
    out.position(COLUMNS_AT);
    writeColumns();
    int length = out.position();
    ProducerRecord first = records.get(0);
    long maxTimeMs = records.stream().mapToLong(record -> record.timestampMs).max().orElse(0);
    out.putInt(12, length).put(20, (byte) 1).put(21, (byte) 1).putInt(24, records.size());
    out.putShort(28, (short) producerEpoch).putShort(30, MAGIC).putLong(32, first.timestampMs).putLong(40, maxTimeMs);
    out.putLong(48, producerId).putInt(56, sequence);
    out.putShort(HEADER_BYTES, (short) columns).put(66, (byte) first.priority);
    out.put(67, (byte) ((columns & CONTENT_TYPES) == 0 ? first.contentType : 0)).putInt(68, length - COLUMNS_AT);
    out.putLong(72, first.deliverAtMs).putLong(80, (columns & TTLS) == 0 ? first.ttlMs : 0);
    out.putShort(88, (short) ((columns & MAX_DELIVERIES) == 0 ? first.maxDeliveries : 0));
    CRC32C crc = new CRC32C();
    crc.update(out.array(), CRC_FROM, length - CRC_FROM);
    out.putInt(16, (int) crc.getValue());
    return length == out.capacity() ? out.array() : java.util.Arrays.copyOf(out.array(), length);
  }

  /** The columns in their order: first what has a fixed size, then the bytes. */
  private void writeColumns() {
    int count = records.size();
    writeOffsets(record -> record.payload);
    if (begin(TIMESTAMPS, varies(record -> record.timestampMs))) {
      records.forEach(record -> out.putLong(record.timestampMs));
    }
    if (begin(TTLS, varies(record -> record.ttlMs))) {
      records.forEach(record -> out.putLong(record.ttlMs));
    }
    boolean hasKeys = records.stream().anyMatch(record -> record.key != null);
    if (begin(KEYS, hasKeys)) {
      writeOffsets(record -> record.key);
      if (begin(KEY_VALIDITY, records.stream().anyMatch(record -> record.key == null))) {
        byte[] bits = new byte[(count + 7) / 8];
        for (int i = 0; i < count; i++) {
          bits[i / 8] |= (byte) (records.get(i).key == null ? 0 : 1 << (i % 8));
        }
        out.put(bits);
      }
    }
    boolean hasIdempotency = records.stream().anyMatch(record -> record.idempotencyKey.length > 0);
    if (begin(IDEMPOTENCY_KEYS, hasIdempotency)) {
      writeOffsets(record -> record.idempotencyKey);
    }
    List<Header> headers = records.stream().flatMap(record -> record.headers.stream()).toList();
    if (begin(HEADERS, !headers.isEmpty())) {
      int total = 0;
      out.putInt(0);
      for (ProducerRecord record : records) {
        out.putInt(total += record.headers.size());
      }
      align();
      writeOffsets(headers, BatchEncoder::nameOf);
      align();
      writeOffsets(headers, Header::value);
    }
    if (begin(MAX_DELIVERIES, varies(record -> record.maxDeliveries))) {
      records.forEach(record -> out.putShort((short) record.maxDeliveries));
    }
    if (begin(CONTENT_TYPES, varies(record -> record.contentType))) {
      records.forEach(record -> out.put((byte) record.contentType));
    }
    if (hasKeys) {
      align();
      records.forEach(record -> out.put(record.key == null ? new byte[0] : record.key));
    }
    if (hasIdempotency) {
      align();
      records.forEach(record -> out.put(record.idempotencyKey));
    }
    if (!headers.isEmpty()) {
      align();
      headers.forEach(header -> out.put(nameOf(header)));
      align();
      headers.forEach(header -> out.put(header.value()));
    }
    align();
    records.forEach(record -> out.put(record.payload));
  }

  private boolean begin(int column, boolean isThere) {
    if (isThere) {
      columns |= column;
      align();
    }
    return isThere;
  }

  private void align() {
    out.position(out.position() + 7 & ~7);
  }

  private void writeOffsets(Function<ProducerRecord, byte[]> bytes) {
    writeOffsets(records, bytes);
  }

  private <T> void writeOffsets(List<T> items, Function<T, byte[]> bytes) {
    int end = 0;
    out.putInt(0);
    for (T item : items) {
      byte[] found = bytes.apply(item);
      out.putInt(end += found == null ? 0 : found.length);
    }
  }

  private boolean varies(ToLongFunction<ProducerRecord> field) {
    long first = field.applyAsLong(records.get(0));
    return records.stream().anyMatch(record -> field.applyAsLong(record) != first);
  }

  private static byte[] nameOf(Header header) {
    return header.name().getBytes(StandardCharsets.UTF_8);
  }

  /** At least the size of the batch: every column, and a gap before each. */
  private int sizeMax() {
    long found = COLUMNS_AT + 16L * 8 + 64;
    for (ProducerRecord record : records) {
      found += 48L + record.sizeBytes();
    }
    return Math.toIntExact(found);
  }
}
