package io.flotilla.client;

import com.google.protobuf.ByteString;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.Result;
import io.flotilla.v1.StageAckRequest;
import io.flotilla.v1.StageReply;
import io.flotilla.v1.StageRequest;
import io.flotilla.v1.TransactionOutcomeReply;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Records of several topics that become visible together, or not at all; made by {@link Client#transaction}. For one
 * thread at a time.
 *
 * <p>Records are staged at the leaders of their partitions; then one decision of the cluster applies to all of them.
 * {@code close} aborts a transaction that was not committed:
 *
 * <pre>{@code
 * try (var transaction = client.transaction()) {
 *   transaction.ack(message);
 *   transaction.produce("invoices", ProducerRecord.of("invoice 1"));
 *   transaction.commit();
 * }
 * }</pre>
 *
 * <p>What was sent once never changes: a record or an ack that is added after the answer to a stage was lost begins
 * another part.
 */
public final class Transaction implements AutoCloseable {
  private static final int BATCH_BYTES = 1 << 20;
  private static final int BATCH_RECORDS = 10_000;
  private static final long BUFFER_BYTES = 4 << 20;

  /** Records for one partition that share priority and deliver-at. */
  private static final class Batch {
    private final Participant place;
    private final int sequence;
    private List<ProducerRecord> records = new ArrayList<>();
    private int count;
    private long sizeBytes;
    private long baseOffset = -1;
    /** A broker may have staged it. */
    private boolean isSent;

    Batch(Participant place, int sequence) {
      this.place = place;
      this.sequence = sequence;
    }

    boolean takes(ProducerRecord record) {
      return !isSent
          && count < BATCH_RECORDS
          && sizeBytes + record.sizeBytes() <= BATCH_BYTES
          && records.get(0).priority == record.priority
          && records.get(0).deliverAtMs == record.deliverAtMs;
    }
  }

  /** Messages of one queue group in one partition, acknowledged with one request. */
  private static final class Acks {
    private final QueueConsumer consumer;
    private final int partition;
    private final List<QueueMessage> messages = new ArrayList<>();
    private final List<Result> results = new ArrayList<>();
    private int resultsBytes;
    /** A broker may have staged them. */
    private boolean isSent;

    Acks(QueueMessage first) {
      this.consumer = first.consumer();
      this.partition = first.partition();
    }

    boolean takes(QueueMessage message, byte[] result) {
      boolean isSame = consumer == message.consumer() && partition == message.partition();
      return !isSent && isSame && Settlements.hasRoom(results.size(), resultsBytes, result);
    }

    void add(QueueMessage message, byte[] result) {
      messages.add(message);
      if (result != null) {
        results.add(
            Result.newBuilder()
                .setPartition(partition)
                .setOffset(message.offset())
                .setPayload(ByteString.copyFrom(result))
                .build());
        resultsBytes += result.length;
      }
    }
  }

  private record Written(Batch batch, int position) {}

  private final Client client;
  private final String transactionId;
  private final int transactionTimeoutMs;
  private final long producerId = ProducerLane.newProducerId();
  private final int unkeyed = ThreadLocalRandom.current().nextInt(Integer.MAX_VALUE);
  private final Map<String, TopicInfo> topics = new HashMap<>();
  /** Of the topics in which something is staged. */
  private final Map<String, Long> topicIds = new HashMap<>();
  private final List<Batch> batches = new ArrayList<>();
  private final Map<Participant, Batch> last = new HashMap<>();
  private final Map<Participant, Integer> counts = new LinkedHashMap<>();
  private final List<Written> written = new ArrayList<>();
  /** Those that are not staged yet. */
  private final List<Acks> unstagedAcks = new ArrayList<>();
  private long bufferedBytes;
  /** When the first record was staged, by the cluster's clock; 0: none is staged. */
  private long begunMs;
  private boolean isOver;
  private boolean isRepeated;

  Transaction(Client client, String transactionId, int transactionTimeoutMs) {
    this.client = client;
    this.transactionId = transactionId == null ? UUID.randomUUID().toString().replace("-", "") : transactionId;
    this.transactionTimeoutMs = ProducerRecord.least(0, transactionTimeoutMs, "transactionTimeoutMs");
  }

  /** The id under which any process may stage more records, commit, or abort. */
  public String transactionId() {
    return transactionId;
  }

  /** Adds one record. It may stay in this process until the commit, and is visible to no reader before. */
  public void produce(String topic, ProducerRecord record) {
    add(topic, record);
    if (bufferedBytes >= BUFFER_BYTES) {
      flush();
    }
  }

  /** Adds many records, and returns when the cluster has staged them: from then on any process may commit. */
  public void stage(String topic, Collection<ProducerRecord> records) {
    records.forEach(record -> add(topic, record));
    flush();
  }

  /** Acknowledges a message with this transaction: settled when it commits, released if it aborts. */
  public void ack(QueueMessage message) {
    ack(message, null);
  }

  /** The same with a result, up to 64 KiB, for callers that wait for it; they get it with the commit. */
  public void ack(QueueMessage message, byte[] result) {
    checkOpen();
    Settlements.check(result);
    if (unstagedAcks.stream().anyMatch(each -> each.messages.contains(message))) {
      return;
    }
    if (!message.beginSettling()) {
      throw message.expired();
    }
    Acks acks = unstagedAcks.stream().filter(each -> each.takes(message, result)).findFirst().orElse(null);
    if (acks == null) {
      acks = new Acks(message);
      unstagedAcks.add(acks);
    }
    acks.add(message, result);
    counts.putIfAbsent(new Participant(message.topic(), message.partition()), 0);
  }

  /** Makes everything visible in all partitions, and returns when it is. After that there are receipts. */
  public void commit() {
    commit("", 0);
  }

  /** The same only once, however often the application commits this version or a newer one. */
  public void commit(String applicationId, long version) {
    checkOpen();
    boolean isStaged = false;
    try {
      flush();
      isStaged = true;
      boolean isCommitted =
          begunMs == 0
              ? decision().commit(applicationId, version)
              : decision().commit(applicationId, version, begunMs, topicIds);
      isRepeated = !isCommitted;
    } catch (FlotillaException error) {
      if (isStaged && error.code() == ErrorCode.OUTCOME_UNKNOWN) {
        // The commit may be repeated; by then the outcome is known.
        throw error;
      }
      close();
      if (error.code() == ErrorCode.OUTCOME_UNKNOWN) {
        throw new FlotillaException(
            ErrorCode.UNAVAILABLE, "aborted: a broker did not say whether it has staged a part", 0, error);
      }
      throw error;
    }
    isOver = true;
    if (!isRepeated) {
      decision().awaitShown().forEach(this::shown);
    }
  }

  /** Drops everything. Throws TRANSACTION_ENDED when it was committed. */
  public void abort() {
    isOver = true;
    unstagedAcks.forEach(acks -> acks.messages.forEach(QueueMessage::settlingFailed));
    unstagedAcks.clear();
    decision().abort(begunMs);
  }

  /**
   * The receipts of the records, in the order of adding. Throws TRANSACTION_ENDED before a commit. None, if the
   * application had committed this version before: then nothing was stored now.
   */
  public List<Receipt> receipts() {
    if (isRepeated) {
      return List.of();
    }
    List<Receipt> found = new ArrayList<>();
    for (Written each : written) {
      Batch batch = each.batch();
      if (batch.baseOffset < 0) {
        throw new FlotillaException(
            ErrorCode.TRANSACTION_ENDED, "the transaction was not committed here, so its records have no offsets");
      }
      Participant place = batch.place;
      long topicId = topics.get(place.topic()).topicId();
      found.add(new Receipt(place.topic(), place.partition(), batch.baseOffset + each.position(), false, topicId));
    }
    return found;
  }

  /** Aborts it, unless it was committed or aborted. A partition that cannot be reached drops its part later. */
  @Override
  public void close() {
    if (!isOver) {
      try {
        if (counts.isEmpty()) {
          isOver = true;
        } else {
          abort();
        }
      } catch (FlotillaException error) {
        isOver = true;
      }
    }
  }

  private void add(String topic, ProducerRecord record) {
    checkOpen();
    record.prepare();
    if (record.idempotencyKey.length > 0) {
      throw FlotillaException.invalid(
          "records of a transaction have no idempotency keys: it commits once as a whole");
    }
    TopicInfo found = topics.computeIfAbsent(topic, name -> client.findTopic(name, client.timeoutMs()));
    Participant place = new Participant(topic, found.partitionOf(record, unkeyed));
    Batch batch = last.get(place);
    if (batch == null || !batch.takes(record)) {
      batch = new Batch(place, counts.getOrDefault(place, 0));
      last.put(place, batch);
      batches.add(batch);
    }
    written.add(new Written(batch, batch.count));
    batch.records.add(record);
    batch.count++;
    batch.sizeBytes += record.sizeBytes();
    bufferedBytes += record.sizeBytes();
    counts.merge(place, 1, Integer::sum);
  }

  /** Stages what is not staged yet; the batches of a partition in their order. */
  private void flush() {
    for (Acks acks : List.copyOf(unstagedAcks)) {
      stage(acks);
      unstagedAcks.remove(acks);
    }
    for (Batch batch : batches) {
      if (!batch.records.isEmpty()) {
        stage(batch);
      }
    }
  }

  private void stage(Batch batch) {
    StageRequest request =
        StageRequest.newBuilder()
            .setTopic(batch.place.topic())
            .setPartition(batch.place.partition())
            .setTransactionId(transactionId)
            .setBatch(BatchEncoder.encode(batch.records, producerId, batch.sequence))
            .setTopicId(topics.get(batch.place.topic()).topicId())
            .setTimeoutMs(transactionTimeoutMs)
            .build();
    batch.isSent = true;
    staged(
        batch.place.topic(),
        client.calls().call(FlotillaGrpc.getStageMethod(), request, Effect.REPEATABLE, client.timeoutMs()));
    bufferedBytes -= batch.sizeBytes;
    batch.records = new ArrayList<>();
  }

  private void stage(Acks acks) {
    StageAckRequest request =
        StageAckRequest.newBuilder()
            .setTopic(acks.consumer.topic())
            .setPartition(acks.partition)
            .setGroup(acks.consumer.group())
            .setTransactionId(transactionId)
            .setTimeoutMs(transactionTimeoutMs)
            .addAllLeases(acks.messages.stream().map(QueueMessage::lease).toList())
            .addAllResults(acks.results)
            .build();
    acks.isSent = true;
    staged(
        acks.consumer.topic(),
        client.calls().call(FlotillaGrpc.getStageAckMethod(), request, Effect.REPEATABLE, client.timeoutMs()));
    acks.messages.forEach(acks.consumer::takenOver);
  }

  private void staged(String topic, StageReply reply) {
    topicIds.putIfAbsent(topic, reply.getTopicId());
    begunMs = begunMs == 0 ? reply.getBegunMs() : Math.min(begunMs, reply.getBegunMs());
  }

  /** Takes over the offsets of a partition. */
  private void shown(Participant place, List<TransactionOutcomeReply.Batch> found) {
    for (TransactionOutcomeReply.Batch shown : found) {
      for (Batch batch : batches) {
        if (batch.place.equals(place) && shown.getProducerId() == producerId
            && shown.getProducerSequence() == batch.sequence) {
          batch.baseOffset = shown.getBaseOffset();
        }
      }
    }
  }

  private Decision decision() {
    return new Decision(client, transactionId, counts.keySet());
  }

  private void checkOpen() {
    if (isOver) {
      throw new FlotillaException(ErrorCode.TRANSACTION_ENDED, "transaction " + transactionId + " is over");
    }
  }
}
