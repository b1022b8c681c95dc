package io.flotilla.client;

import com.google.protobuf.UnsafeByteOperations;
import io.flotilla.v1.AckRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.NackRequest;
import io.flotilla.v1.Result;
import io.flotilla.v1.SettleReply;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/**
 * The outcomes that a consumer reports: one request in flight, and what comes meanwhile gathers in the next one.
 *
 * <p>A request may be repeated. When a repetition finds the lease gone, the first attempt may have settled it: that is
 * OUTCOME_UNKNOWN, not LEASE_EXPIRED.
 */
final class Settlements {
  private static final int LEASES_MAX = 1_000;
  private static final int RESULT_BYTES_MAX = 64 << 10;
  /** Of one request. */
  private static final int RESULTS_MAX = 1_024;
  private static final int RESULTS_BYTES_MAX = 128 << 10;

  private record Entry(QueueMessage message, Outcome outcome, byte[] result, CompletableFuture<Void> done) {}

  private final Calls calls;
  private final String topic;
  private final String group;
  private final long timeoutMs;
  private final Deque<Entry> waiting = new ArrayDeque<>();
  private final Set<CompletableFuture<Void>> unanswered = new HashSet<>();
  private boolean isInFlight;

  Settlements(Calls calls, String topic, String group, long timeoutMs) {
    this.calls = calls;
    this.topic = topic;
    this.group = group;
    this.timeoutMs = timeoutMs;
  }

  /** Throws INVALID_ARGUMENT. */
  static void check(byte[] result) {
    if (result != null && result.length > RESULT_BYTES_MAX) {
      throw FlotillaException.invalid("a result has at most " + RESULT_BYTES_MAX + " bytes, not " + result.length);
    }
  }

  /** Whether a request that has so many results can carry this one, too. */
  static boolean hasRoom(int results, int resultsBytes, byte[] result) {
    return result == null || (results < RESULTS_MAX && resultsBytes + result.length <= RESULTS_BYTES_MAX);
  }

  CompletableFuture<Void> add(QueueMessage message, Outcome outcome, byte[] result) {
    check(result);
    if (!message.beginSettling()) {
      return CompletableFuture.completedFuture(null);
    }
    Entry entry = new Entry(message, outcome, result, new CompletableFuture<>());
    synchronized (this) {
      waiting.add(entry);
      unanswered.add(entry.done());
    }
    pump();
    return entry.done();
  }

  /** Ends when every outcome that was reported before has an answer, an error included. */
  synchronized CompletableFuture<Void> all() {
    return CompletableFuture.allOf(unanswered.toArray(new CompletableFuture<?>[0])).exceptionally(error -> null);
  }

  private void pump() {
    List<Entry> batch = new ArrayList<>();
    synchronized (this) {
      if (isInFlight || waiting.isEmpty()) {
        return;
      }
      Outcome first = waiting.peek().outcome();
      int resultsBytes = 0;
      while (!waiting.isEmpty() && batch.size() < LEASES_MAX && waiting.peek().outcome().equals(first)) {
        byte[] result = waiting.peek().result();
        if (!hasRoom(batch.size(), resultsBytes, result)) {
          break;
        }
        resultsBytes += result == null ? 0 : result.length;
        batch.add(waiting.poll());
      }
      isInFlight = true;
    }
    send(batch).whenComplete((reply, error) -> {
      synchronized (this) {
        isInFlight = false;
        batch.forEach(entry -> unanswered.remove(entry.done()));
      }
      Set<String> expired = reply == null ? Set.of() : new HashSet<>(reply.getExpiredList());
      for (Entry entry : batch) {
        finish(entry, expired, error == null ? null : Calls.errorOf(error));
      }
      pump();
    });
  }

  private CompletableFuture<SettleReply> send(List<Entry> batch) {
    List<String> leases = batch.stream().map(entry -> entry.message().lease()).toList();
    Outcome outcome = batch.get(0).outcome();
    if (outcome.kind() == Outcome.Kind.ACK) {
      AckRequest.Builder request = AckRequest.newBuilder().setTopic(topic).setGroup(group).addAllLeases(leases);
      for (Entry entry : batch) {
        if (entry.result() != null) {
          request.addResults(
              Result.newBuilder()
                  .setPartition(entry.message().partition())
                  .setOffset(entry.message().offset())
                  .setPayload(UnsafeByteOperations.unsafeWrap(entry.result())));
        }
      }
      return calls.start(FlotillaGrpc.getAckMethod(), request.build(), Effect.REPEATABLE, timeoutMs);
    }
    NackRequest.Builder request =
        NackRequest.newBuilder().setTopic(topic).setGroup(group).addAllLeases(leases).setReason(outcome.reason());
    request.setKind(
        switch (outcome.kind()) {
          case RELEASE -> NackRequest.Kind.RELEASE;
          case REJECT -> NackRequest.Kind.REJECT;
          default -> NackRequest.Kind.FAIL;
        });
    if (outcome.delayMs() != Outcome.BY_BACKOFF) {
      request.setDelayMs((int) Math.min(outcome.delayMs(), 0xFFFF_FFFFL));
    }
    return calls.start(FlotillaGrpc.getNackMethod(), request.build(), Effect.REPEATABLE, timeoutMs);
  }

  private void finish(Entry entry, Set<String> expired, FlotillaException error) {
    if (error != null) {
      if (error.code() != ErrorCode.LEASE_EXPIRED && error.code() != ErrorCode.OUTCOME_UNKNOWN) {
        entry.message().settlingFailed();
      }
      entry.done().completeExceptionally(error);
    } else if (expired.contains(entry.message().lease())) {
      entry.message().lost();
      entry.done().completeExceptionally(entry.message().expired());
    } else {
      entry.done().complete(null);
    }
  }
}
