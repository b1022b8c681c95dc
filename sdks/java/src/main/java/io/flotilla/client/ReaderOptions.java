package io.flotilla.client;

import com.google.protobuf.ByteString;
import io.flotilla.v1.FetchRequest;
import java.util.List;

/** Options of a reader. The setters change these options and return them. */
public final class ReaderOptions {
  Start start;
  String group = "";
  List<Integer> partitions;
  boolean skipsRemoved;
  final FetchRequest.Builder fetch = FetchRequest.newBuilder();
  long timeoutMs;

  /** Where it begins; by default where the group last committed, else at the oldest record. */
  public ReaderOptions start(Start start) {
    this.start = start;
    return this;
  }

  /** Whose committed offsets are read and written; without one {@code commit} is refused. */
  public ReaderOptions group(String group) {
    this.group = group;
    return this;
  }

  /** The partitions to read; by default all. */
  public ReaderOptions partitions(Integer... partitions) {
    this.partitions = List.of(partitions);
    return this;
  }

  /** Only records of these types: the value of their header {@code flotilla-task-type}. */
  public ReaderOptions types(String... types) {
    fetch.clearTypes().addAllTypes(List.of(types));
    return this;
  }

  /** Only records that have this header, beside others that are asked for. */
  public ReaderOptions header(String name, String value) {
    fetch.addHeaders(
        io.flotilla.v1.Header.newBuilder().setName(name).setValue(ByteString.copyFromUtf8(value)).build());
    return this;
  }

  /** Goes on with the oldest record left when retention has removed the next one; else OFFSET_OUT_OF_RANGE. */
  public ReaderOptions skipRemoved() {
    this.skipsRemoved = true;
    return this;
  }

  /** Any replica may answer, with what it knows to be committed. */
  public ReaderOptions anyReplica() {
    fetch.setAnyReplica(true);
    return this;
  }

  /** Sees every record that was acknowledged before, at the price of a round trip to a quorum. */
  public ReaderOptions linearizable() {
    fetch.setLinearizable(true);
    return this;
  }

  /** About the size of one answer; 1 MiB. */
  public ReaderOptions fetchBytes(int fetchBytes) {
    fetch.setMaxBytes(ProducerRecord.least(1, fetchBytes, "fetchBytes"));
    return this;
  }

  /** The time limit of each request; by default the client's. */
  public ReaderOptions timeoutMs(long timeoutMs) {
    this.timeoutMs = ProducerRecord.least(1, timeoutMs, "timeoutMs");
    return this;
  }
}
