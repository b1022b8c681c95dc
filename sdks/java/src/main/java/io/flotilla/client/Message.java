package io.flotilla.client;

import java.nio.charset.StandardCharsets;
import java.util.List;

/** A message that was read. (topic, partition, offset) identifies it for ever. */
public class Message {
  private final String topic;
  private final io.flotilla.v1.Message source;

  Message(String topic, io.flotilla.v1.Message source) {
    this.topic = topic;
    this.source = source;
  }

  /** The topic that it is stored in. */
  public final String topic() {
    return topic;
  }

  /** The partition of the topic. */
  public final int partition() {
    return source.getPartition();
  }

  /** The place in the partition. */
  public final long offset() {
    return source.getOffset();
  }

  /** A copy of the bytes that were produced. */
  public final byte[] payload() {
    return source.getPayload().toByteArray();
  }

  /** The payload as UTF-8 text. */
  public final String text() {
    return source.getPayload().toString(StandardCharsets.UTF_8);
  }

  /** A copy of the key; null: it has none. The empty key is a key like any other. */
  public final byte[] key() {
    return source.hasKey() ? source.getKey().toByteArray() : null;
  }

  /** The headers in order. */
  public final List<Header> headers() {
    return headersOf(source.getHeadersList());
  }

  /** The first header of this name as text; null: there is none. */
  public final String header(String name) {
    for (io.flotilla.v1.Header header : source.getHeadersList()) {
      if (header.getName().equals(name)) {
        return header.getValue().toString(StandardCharsets.UTF_8);
      }
    }
    return null;
  }

  /** When the producer made it, in milliseconds since 1970. */
  public final long timestampMs() {
    return source.getTimestampMs();
  }

  /** 0 to 7; a higher one is delivered earlier. */
  public final int priority() {
    return source.getPriority();
  }

  /** 0 bytes, 1 text, 2 JSON, 3 protobuf, 4 Avro, 5 Arrow; from 128 on your own. */
  public final int contentType() {
    return source.getContentType();
  }

  /** When it was due for queue groups, in milliseconds since 1970; 0: at once. */
  public final long deliverAtMs() {
    return source.getDeliverAtMs();
  }

  final io.flotilla.v1.Message source() {
    return source;
  }

  static List<Header> headersOf(List<io.flotilla.v1.Header> headers) {
    return headers.stream().map(each -> new Header(each.getName(), each.getValue().toByteArray())).toList();
  }

  @Override
  public String toString() {
    return topic + "/" + partition() + "@" + offset();
  }
}
