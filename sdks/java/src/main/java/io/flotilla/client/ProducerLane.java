package io.flotilla.client;

import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.ProduceReply;
import io.flotilla.v1.ProduceRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * The records of one producer for one partition: one batch in flight, numbered, and those that wait for the next.
 *
 * <p>Brokers know the last batches of a producer id by their sequence. After a batch that failed nobody knows whether
 * its number is used, so the lane goes on under a new id.
 */
final class ProducerLane {
  /** A record that was sent and has no answer; callers get a copy of the future, which they may cancel. */
  record Pending(
      ProducerRecord record, CompletableFuture<Receipt> receipt, int sizeBytes, long deadlineNs, TopicInfo topic) {}

  private final Producer producer;
  private final int partition;
  private final Deque<Pending> waiting = new ArrayDeque<>();
  private List<Pending> inFlight = List.of();
  private long producerId = newProducerId();
  private int sequence;
  /** Lingering ends: everything that waits now is to be sent. */
  private boolean isFlushing;
  private boolean isTimed;
  private long oldestNs;

  ProducerLane(Producer producer, int partition) {
    this.producer = producer;
    this.partition = partition;
  }

  /** A random id, unique without asking a broker. Never 0, which means none. */
  static long newProducerId() {
    return ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
  }

  synchronized void add(Pending pending) {
    if (waiting.isEmpty()) {
      oldestNs = System.nanoTime();
    }
    waiting.add(pending);
  }

  /** Sends the next batch, if none is in flight and it need not linger. */
  void pump() {
    List<Pending> batch;
    List<Pending> overdue = new ArrayList<>();
    synchronized (this) {
      long now = System.nanoTime();
      while (!waiting.isEmpty() && waiting.peek().deadlineNs() - now <= 0) {
        overdue.add(waiting.poll());
      }
      if (!inFlight.isEmpty() || waiting.isEmpty() || mustLinger(now)) {
        batch = List.of();
      } else {
        batch = inFlight = take();
      }
    }
    fail(overdue, new FlotillaException(ErrorCode.DEADLINE, "not sent in time: earlier records have no answer"));
    if (!batch.isEmpty()) {
      producer.moveOn(partition);
      send(batch);
    }
  }

  /** Sends without lingering, and returns the receipts to come. */
  List<CompletableFuture<Receipt>> flush() {
    List<CompletableFuture<Receipt>> found = new ArrayList<>();
    synchronized (this) {
      isFlushing = !waiting.isEmpty();
      inFlight.forEach(pending -> found.add(pending.receipt()));
      waiting.forEach(pending -> found.add(pending.receipt()));
    }
    pump();
    return found;
  }

  /** Fails every record now. */
  void abandon() {
    List<Pending> unsent;
    List<Pending> sent;
    synchronized (this) {
      unsent = List.copyOf(waiting);
      sent = List.copyOf(inFlight);
      waiting.clear();
    }
    fail(unsent, FlotillaException.closed("the producer"));
    fail(sent, new FlotillaException(
        ErrorCode.OUTCOME_UNKNOWN, "the producer was closed before an answer came; it may be stored"));
  }

  private boolean mustLinger(long now) {
    ProducerOptions options = producer.options();
    if (options.lingerMs == 0 || isFlushing || waiting.size() >= options.batchRecords) {
      return false;
    }
    long leftNs = oldestNs + TimeUnit.MILLISECONDS.toNanos(options.lingerMs) - now;
    if (leftNs <= 0 || waiting.stream().mapToLong(Pending::sizeBytes).sum() >= options.batchBytes) {
      return false;
    }
    if (!isTimed) {
      isTimed = true;
      producer.client().calls().timers().schedule(this::lingered, leftNs, TimeUnit.NANOSECONDS);
    }
    return true;
  }

  private void lingered() {
    synchronized (this) {
      isTimed = false;
    }
    pump();
  }

  /** The next batch: records from the front that share topic, priority and deliver-at, up to its limits. */
  private List<Pending> take() {
    ProducerOptions options = producer.options();
    List<Pending> batch = new ArrayList<>();
    ProducerRecord first = waiting.peek().record();
    TopicInfo topic = waiting.peek().topic();
    long sizeBytes = 0;
    while (!waiting.isEmpty() && batch.size() < options.batchRecords) {
      Pending next = waiting.peek();
      ProducerRecord record = next.record();
      sizeBytes += next.sizeBytes();
      boolean isAlike = record.priority == first.priority && record.deliverAtMs == first.deliverAtMs
          && next.topic() == topic;
      if (!batch.isEmpty() && (!isAlike || sizeBytes > options.batchBytes)) {
        break;
      }
      batch.add(waiting.poll());
    }
    isFlushing = isFlushing && !waiting.isEmpty();
    oldestNs = System.nanoTime();
    return batch;
  }

  private void send(List<Pending> batch) {
    send(batch, batch.get(0).topic().partitions().size());
  }

  /** Sends a batch; 0 partitions: that the topic has more than this client knows does not matter. */
  private void send(List<Pending> batch, int partitionCount) {
    long leftMs = TimeUnit.NANOSECONDS.toMillis(batch.get(0).deadlineNs() - System.nanoTime());
    List<ProducerRecord> records = batch.stream().map(Pending::record).toList();
    ProduceRequest request =
        ProduceRequest.newBuilder()
            .setTopic(producer.topic())
            .setPartition(partition)
            .setTopicId(batch.get(0).topic().topicId())
            .setPartitionCount(partitionCount)
            .setBatch(BatchEncoder.encode(records, producerId, sequence))
            .build();
    producer.client().calls()
        .start(FlotillaGrpc.getProduceMethod(), request, Effect.REPEATABLE, Math.max(leftMs, 1))
        .whenComplete((reply, error) -> {
          if (error == null) {
            stored(batch, reply);
          } else {
            refused(batch, Calls.errorOf(error));
          }
        });
  }

  private void stored(List<Pending> batch, ProduceReply reply) {
    if (reply.getKnownPositionsCount() > 0) {
      leaveOut(batch, reply);
      return;
    }
    long offset = reply.getReceipts(0).getOffset();
    sequence += batch.size();
    ended(batch);
    for (Pending pending : batch) {
      complete(pending, offset++, false);
    }
    pump();
  }

  /** Some of its records were stored before, by their idempotency keys: the rest is sent again under the number. */
  private void leaveOut(List<Pending> batch, ProduceReply reply) {
    Map<Integer, Long> known = new HashMap<>();
    for (int i = 0; i < reply.getKnownPositionsCount(); i++) {
      known.put(reply.getKnownPositions(i), reply.getKnownOffsets(i));
    }
    List<Pending> rest = new ArrayList<>();
    for (int i = 0; i < batch.size(); i++) {
      if (!known.containsKey(i)) {
        rest.add(batch.get(i));
      }
    }
    synchronized (this) {
      inFlight = rest;
    }
    for (int i = 0; i < batch.size(); i++) {
      if (known.containsKey(i)) {
        complete(batch.get(i), known.get(i), true);
      }
    }
    if (rest.isEmpty()) {
      pump();
    } else {
      send(rest);
    }
  }

  private void refused(List<Pending> batch, FlotillaException error) {
    boolean isGrown = error.code() == ErrorCode.TOPIC_GROWN
        || error.getCause() instanceof FlotillaException cause && cause.code() == ErrorCode.TOPIC_GROWN;
    if (isGrown) {
      // The number of the batch makes it safe to send it again. A key keeps its partition when a topic grows: only the next records are spread anew.
      producer.forgetTopic();
      send(batch, 0);
      return;
    }
    producerId = newProducerId();
    sequence = 0;
    boolean isForgotten = error.code() == ErrorCode.SEQUENCE_GAP || error.code() == ErrorCode.OUT_OF_WINDOW;
    if (isForgotten && batch.get(0).deadlineNs() - System.nanoTime() > 0) {
      // The brokers have forgotten this producer, and nothing of the batch is stored.
      send(batch);
      return;
    }
    if (error.code() == ErrorCode.TOPIC_REPLACED) {
      producer.forgetTopic();
      long leftMs = TimeUnit.NANOSECONDS.toMillis(batch.get(0).deadlineNs() - System.nanoTime());
      producer.client().startFindTopic(producer.topic(), Math.max(leftMs, 1))
          .whenComplete((found, notFound) -> replaced(batch, found, error));
      return;
    }
    if (error.code() == ErrorCode.NOT_FOUND || error.code() == ErrorCode.INVALID_ARGUMENT) {
      producer.forgetTopic();
    }
    ended(batch);
    fail(batch, error);
    pump();
  }

  /** The topic was created again, and has nothing of the batch: it is meant for the new one, if keys have its place. */
  private void replaced(List<Pending> batch, TopicInfo found, FlotillaException error) {
    TopicInfo old = batch.get(0).topic();
    boolean isSame = found == null || found.topicId() == old.topicId();
    boolean isLate = batch.get(0).deadlineNs() - System.nanoTime() <= 0;
    if (isSame || isLate || found.keySpread() != old.keySpread() || partition >= found.partitions().size()) {
      ended(batch);
      fail(batch, error);
      pump();
      return;
    }
    List<Pending> moved = batch.stream()
        .map(each -> new Pending(each.record(), each.receipt(), each.sizeBytes(), each.deadlineNs(), found))
        .toList();
    synchronized (this) {
      inFlight = moved;
    }
    send(moved);
  }

  private synchronized void ended(List<Pending> batch) {
    if (inFlight == batch) {
      inFlight = List.of();
    }
  }

  private void complete(Pending pending, long offset, boolean isDuplicate) {
    Receipt receipt = new Receipt(producer.topic(), partition, offset, isDuplicate, pending.topic().topicId());
    if (pending.receipt().complete(receipt)) {
      producer.release(pending.sizeBytes());
    }
  }

  private void fail(List<Pending> batch, FlotillaException error) {
    for (Pending pending : batch) {
      if (pending.receipt().completeExceptionally(error)) {
        producer.release(pending.sizeBytes());
      }
    }
  }
}
