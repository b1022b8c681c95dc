package io.flotilla.client;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;

/** Options of a queue consumer. The setters change these options and return them. */
public final class QueueOptions {
  Start start = Start.earliest();
  List<Integer> partitions = List.of();
  List<String> types = List.of();
  final List<io.flotilla.v1.Header> headers = new ArrayList<>();
  int visibilityMs;
  int prefetch = 16;
  boolean isAutoAck;
  boolean isOrderedByKey;
  long leaseMsMax = 3_600_000;
  long timeoutMs;

  /** Where a new group begins; by default at the oldest message. */
  public QueueOptions start(Start start) {
    this.start = start;
    return this;
  }

  /** The partitions to take messages from; by default all. */
  public QueueOptions partitions(Integer... partitions) {
    this.partitions = List.of(partitions);
    return this;
  }

  /** Only messages of these types: the value of their header {@code flotilla-task-type}. */
  public QueueOptions types(String... types) {
    this.types = List.of(types);
    return this;
  }

  /** Only messages that have this header, beside others that are asked for. */
  public QueueOptions header(String name, String value) {
    headers.add(
        io.flotilla.v1.Header.newBuilder().setName(name).setValue(ByteString.copyFromUtf8(value)).build());
    return this;
  }

  /** How long a lease lasts without a renewal; by default as the group is set, 30 s. */
  public QueueOptions visibilityMs(int visibilityMs) {
    this.visibilityMs = ProducerRecord.least(1, visibilityMs, "visibilityMs");
    return this;
  }

  /** Messages that {@code next} and an iteration take from the broker at a time; 16. */
  public QueueOptions prefetch(int prefetch) {
    this.prefetch = ProducerRecord.least(1, prefetch, "prefetch");
    return this;
  }

  /**
   * The broker acknowledges a message before it sends it, and never delivers it twice. Messages that an iteration has
   * taken ahead and not handed out when the process ends are lost: {@code prefetch(1)} takes none ahead.
   */
  public QueueOptions autoAck() {
    this.isAutoAck = true;
    return this;
  }

  /** Messages of one key go to one member at a time, in their order. That is a setting of the group. */
  public QueueOptions orderedByKey() {
    this.isOrderedByKey = true;
    return this;
  }

  /** For how long unsettled messages are renewed by themselves; one hour. */
  public QueueOptions leaseMsMax(long leaseMsMax) {
    this.leaseMsMax = ProducerRecord.least(1, leaseMsMax, "leaseMsMax");
    return this;
  }

  /** The time limit of each request; by default the client's. */
  public QueueOptions timeoutMs(long timeoutMs) {
    this.timeoutMs = ProducerRecord.least(1, timeoutMs, "timeoutMs");
    return this;
  }
}
