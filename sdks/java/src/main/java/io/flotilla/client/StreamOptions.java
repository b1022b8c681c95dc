package io.flotilla.client;

import com.google.protobuf.ByteString;
import io.flotilla.v1.FetchRequest;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** Options of a stream consumer. The setters change these options and return them. */
public final class StreamOptions {
  Start start = Start.earliest();
  String strategy = "";
  int sessionMs;
  long autoCommitMs;
  long pollMsMax = 300_000;
  boolean skipsRemoved;
  Consumer<List<Integer>> onAssign = partitions -> {};
  BiConsumer<List<Integer>, Boolean> onRevoke = (partitions, isLost) -> {};
  final FetchRequest.Builder fetch = FetchRequest.newBuilder();
  long timeoutMs;

  /** Where the group begins in a partition without a commit; by default at the oldest record. */
  public StreamOptions start(Start start) {
    this.start = start;
    return this;
  }

  /** How partitions are spread: sticky or round-robin. The first member decides; by default sticky. */
  public StreamOptions strategy(String strategy) {
    this.strategy = strategy;
    return this;
  }

  /** A member that is silent for this long leaves the group. The first member decides; by default 30 s. */
  public StreamOptions sessionMs(int sessionMs) {
    this.sessionMs = ProducerRecord.least(1, sessionMs, "sessionMs");
    return this;
  }

  /** How often to commit what was handled, and whenever partitions are given up; by default only by commit. */
  public StreamOptions autoCommitMs(long autoCommitMs) {
    this.autoCommitMs = ProducerRecord.least(1, autoCommitMs, "autoCommitMs");
    return this;
  }

  /** A member that does not poll for this long loses partitions that others wait for; five minutes. */
  public StreamOptions pollMsMax(long pollMsMax) {
    this.pollMsMax = ProducerRecord.least(1, pollMsMax, "pollMsMax");
    return this;
  }

  /** Goes on with the oldest record left when retention has removed the next one; else OFFSET_OUT_OF_RANGE. */
  public StreamOptions skipRemoved() {
    this.skipsRemoved = true;
    return this;
  }

  /** Only records of these types: the value of their header {@code flotilla-task-type}. */
  public StreamOptions types(String... types) {
    fetch.clearTypes().addAllTypes(List.of(types));
    return this;
  }

  /** Only records that have this header, beside others that are asked for. */
  public StreamOptions header(String name, String value) {
    fetch.addHeaders(
        io.flotilla.v1.Header.newBuilder().setName(name).setValue(ByteString.copyFromUtf8(value)).build());
    return this;
  }

  /** Called in the thread that polls, with the partitions that are read from now on; it may seek. */
  public StreamOptions onAssign(Consumer<List<Integer>> onAssign) {
    this.onAssign = onAssign;
    return this;
  }

  /**
   * Called in the thread that polls, with partitions before they are given up, and false: it may commit. With true the
   * group took them without asking, and a commit is refused.
   */
  public StreamOptions onRevoke(BiConsumer<List<Integer>, Boolean> onRevoke) {
    this.onRevoke = onRevoke;
    return this;
  }

  /** The time limit of each request; by default the client's. */
  public StreamOptions timeoutMs(long timeoutMs) {
    this.timeoutMs = ProducerRecord.least(1, timeoutMs, "timeoutMs");
    return this;
  }
}
