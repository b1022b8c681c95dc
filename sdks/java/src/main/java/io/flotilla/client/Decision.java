package io.flotilla.client;

import io.flotilla.v1.AbortTransactionRequest;
import io.flotilla.v1.CommitTransactionRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.TransactionOutcomeReply;
import io.flotilla.v1.TransactionOutcomeRequest;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The commit or the abort of what was staged under an id, by this process or by others. */
record Decision(Client client, String transactionId, Collection<Participant> partitions) {
  private static final int OUTCOME_WAIT_MS = 5_000;
  /** In place of the time of the first stage: only a decision that was made before is wanted. */
  private static final long ALREADY_DECIDED = 1;

  /**
   * False: the application had committed this version or a newer one before, and nothing was committed now. Partitions
   * are asked when the first part was staged, and in which topics.
   */
  boolean commit(String applicationId, long version) {
    long begunMs = 0;
    Map<String, Long> topicIds = new HashMap<>();
    for (Participant place : partitions) {
      TransactionOutcomeReply found = begun(place);
      long placeMs = Math.max(found.getBegunMs(), ALREADY_DECIDED);
      begunMs = begunMs == 0 ? placeMs : Math.min(begunMs, placeMs);
      topicIds.merge(place.topic(), found.getTopicId(), Math::max);
    }
    return commit(applicationId, version, begunMs, topicIds);
  }

  /** The same, with the ids of topics that are known: a later topic of the same name has nothing of this transaction. */
  boolean commit(String applicationId, long version, long begunMs, Map<String, Long> topicIds) {
    CommitTransactionRequest.Builder request =
        CommitTransactionRequest.newBuilder()
            .setTransactionId(transactionId)
            .setApplicationId(applicationId)
            .setVersion(version)
            .setBegunMs(begunMs);
    for (Participant place : partitions) {
      request.addPartitions(place.message()).addTopicIds(topicIds.getOrDefault(place.topic(), 0L));
    }
    return !client.calls()
        .call(FlotillaGrpc.getCommitTransactionMethod(), request.build(), Effect.REPEATABLE, client.timeoutMs())
        .getRepeatedVersion();
  }

  /** Drops everything. Throws TRANSACTION_ENDED when it was committed. */
  void abort(long begunMs) {
    AbortTransactionRequest.Builder request =
        AbortTransactionRequest.newBuilder().setTransactionId(transactionId).setBegunMs(begunMs);
    partitions.forEach(place -> request.addPartitions(place.message()));
    client.calls()
        .call(FlotillaGrpc.getAbortTransactionMethod(), request.build(), Effect.REPEATABLE, client.timeoutMs());
  }

  /** Waits until every partition shows its part of a committed transaction, and returns where its batches are. */
  Map<Participant, List<TransactionOutcomeReply.Batch>> awaitShown() {
    Map<Participant, List<TransactionOutcomeReply.Batch>> shown = new LinkedHashMap<>();
    partitions.forEach(place -> shown.put(place, awaitShown(place)));
    return shown;
  }

  private List<TransactionOutcomeReply.Batch> awaitShown(Participant place) {
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(client.timeoutMs());
    TransactionOutcomeReply found;
    do {
      found = outcome(place, OUTCOME_WAIT_MS);
    } while (!found.getShown() && found.getBegunMs() > 0 && endNs - System.nanoTime() > 0);
    if (!found.getShown()) {
      boolean isLate = found.getBegunMs() > 0;
      throw new FlotillaException(isLate ? ErrorCode.OUTCOME_UNKNOWN : ErrorCode.FORGOTTEN,
          "transaction " + transactionId + " is committed, but partition " + place.partition() + " of "
              + place.topic() + (isLate ? " does not show it yet" : " has dropped its part"));
    }
    return found.getBatchesList();
  }

  private TransactionOutcomeReply begun(Participant place) {
    try {
      return outcome(place, 0);
    } catch (FlotillaException error) {
      if (error.code() != ErrorCode.NOT_FOUND) {
        throw error;
      }
      // Nothing was staged there, or so long ago that the partition has forgotten it.
      return TransactionOutcomeReply.getDefaultInstance();
    }
  }

  private TransactionOutcomeReply outcome(Participant place, int waitMs) {
    TransactionOutcomeRequest request =
        TransactionOutcomeRequest.newBuilder()
            .setTopic(place.topic())
            .setPartition(place.partition())
            .setTransactionId(transactionId)
            .setWaitMs(waitMs)
            .build();
    return Calls.wait(client.calls()
        .start(FlotillaGrpc.getTransactionOutcomeMethod(), request, Effect.READ, client.timeoutMs(), waitMs));
  }
}
