package io.flotilla.client;

import io.flotilla.v1.AlterTopicRequest;
import io.flotilla.v1.Cluster;
import io.flotilla.v1.CommitOffsetRequest;
import io.flotilla.v1.CreateTopicRequest;
import io.flotilla.v1.DeleteTopicRequest;
import io.flotilla.v1.DescribeRequest;
import io.flotilla.v1.EndedMessage;
import io.flotilla.v1.FetchRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.ListOffsetsRequest;
import io.flotilla.v1.PurgeTopicRequest;
import io.flotilla.v1.OffsetReply;
import io.flotilla.v1.ReadOffsetRequest;
import io.flotilla.v1.ReadResultsReply;
import io.flotilla.v1.ReadResultsRequest;
import io.flotilla.v1.TrimTopicRequest;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * A client of a Flotilla cluster over gRPC, for any number of threads.
 *
 * <p>Any node serves every call. The client uses one of its addresses until that fails, then the next. Every call ends
 * within the time limit and has one of three outcomes: it returns, and is done; it throws OUTCOME_UNKNOWN, and may be
 * done or not; it throws another {@link FlotillaException}, and is certainly not done.
 */
public final class Client implements AutoCloseable {
  /** How long one request for results waits at the broker. */
  private static final long RESULT_WAIT_MS = 5_000;

  private final ClientOptions options;
  private final ScheduledExecutorService timers;
  private final Calls calls;
  private final Map<String, Producer> ownProducers = new ConcurrentHashMap<>();
  private final Set<AutoCloseable> producers = ConcurrentHashMap.newKeySet();
  private final Set<AutoCloseable> consumers = ConcurrentHashMap.newKeySet();
  private final Set<Worker> workers = ConcurrentHashMap.newKeySet();
  /** Held while it is closed: a second call returns when the first one is done. */
  private final Object closing = new Object();
  private volatile boolean isClosed;

  /** A client without encryption; {@code addresses} is one or more of {@code host:port}, separated by commas. */
  public Client(String addresses) {
    this(addresses, new ClientOptions());
  }

  /** A client with options. It connects when it is first needed. */
  public Client(String addresses, ClientOptions options) {
    this.options = options;
    Channels channels = new Channels(addresses, options.tls, options.name);
    this.timers = Executors.newSingleThreadScheduledExecutor(task -> {
      Thread thread = new Thread(task, "flotilla-client");
      thread.setDaemon(true);
      return thread;
    });
    this.calls = new Calls(channels, options.credentials, timers);
  }

  // Topics.

  /** Creates a topic with the defaults of the cluster. Throws ALREADY_EXISTS. */
  public TopicInfo createTopic(String topic) {
    return createTopic(topic, 0, 0, Map.of());
  }

  /**
   * Creates a topic; 0 partitions or replicas: the default of the cluster. Settings are written as {@code "30s"},
   * {@code "1MiB"}, {@code "5"}. Throws ALREADY_EXISTS.
   */
  public TopicInfo createTopic(String topic, int partitions, int replicationFactor, Map<String, String> settings) {
    CreateTopicRequest request =
        CreateTopicRequest.newBuilder()
            .setTopic(topic)
            .setPartitions(ProducerRecord.least(0, partitions, "partitions"))
            .setReplicationFactor(ProducerRecord.least(0, replicationFactor, "replicationFactor"))
            .putAllSettings(settings)
            .build();
    return TopicInfo.of(calls.call(FlotillaGrpc.getCreateTopicMethod(), request, Effect.ONCE, timeoutMs()));
  }

  /** Changes settings of a topic, or adds partitions (0: no change). Throws NOT_FOUND. */
  public TopicInfo alterTopic(String topic, int partitions, Map<String, String> settings) {
    AlterTopicRequest request =
        AlterTopicRequest.newBuilder().setTopic(topic).setPartitions(partitions).putAllSettings(settings).build();
    return TopicInfo.of(calls.call(FlotillaGrpc.getAlterTopicMethod(), request, Effect.REPEATABLE, timeoutMs()));
  }

  /** Deletes a topic with all its messages, and returns it as it was. Throws NOT_FOUND. */
  public TopicInfo deleteTopic(String topic) {
    DeleteTopicRequest request = DeleteTopicRequest.newBuilder().setTopic(topic).build();
    return TopicInfo.of(calls.call(FlotillaGrpc.getDeleteTopicMethod(), request, Effect.ONCE, timeoutMs()));
  }

  /** Removes every message that the topic holds now; returns by partition where its log begins then. */
  public Map<Integer, Long> purge(String topic) {
    PurgeTopicRequest request = PurgeTopicRequest.newBuilder().setTopic(topic).build();
    return calls.call(FlotillaGrpc.getPurgeTopicMethod(), request, Effect.ONCE, timeoutMs()).getLogStartsMap();
  }

  /** Removes the messages below an offset of each given partition; as {@link #purge}. */
  public Map<Integer, Long> trim(String topic, Map<Integer, Long> offsets) {
    TrimTopicRequest request = TrimTopicRequest.newBuilder().setTopic(topic).putAllOffsets(offsets).build();
    return calls.call(FlotillaGrpc.getTrimTopicMethod(), request, Effect.REPEATABLE, timeoutMs()).getLogStartsMap();
  }

  /** All topics. */
  public List<TopicInfo> topics() {
    return admin().metadata().topics();
  }

  /** One topic. Throws NOT_FOUND. */
  public TopicInfo describeTopic(String topic) {
    List<TopicInfo> found = admin().metadata(topic).topics();
    if (found.isEmpty()) {
      throw new FlotillaException(ErrorCode.NOT_FOUND, "there is no topic " + topic);
    }
    return found.get(0);
  }

  // Producing.

  /** Stores text, and returns its receipt when a majority of replicas has it on disk. */
  public Receipt produce(String topic, String payload) {
    return produce(topic, ProducerRecord.of(payload));
  }

  /** Stores one record; retries of the client store it once. */
  public Receipt produce(String topic, ProducerRecord record) {
    return Calls.wait(ownProducer(topic).send(record));
  }

  /** Stores many records in few batches, and returns one receipt for each. Throws the error of the first that fails. */
  public List<Receipt> produceMany(String topic, Collection<ProducerRecord> records) {
    return ownProducer(topic).sendAll(records);
  }

  /** A producer that sends in the background: {@code send} does not wait for the answer. */
  public Producer producer(String topic) {
    return producer(topic, new ProducerOptions());
  }

  /** The same with options. */
  public Producer producer(String topic, ProducerOptions options) {
    checkOpen();
    Producer producer = new Producer(this, topic, options);
    producers.add(producer);
    return producer;
  }

  /**
   * Stores one record, waits until a consumer of the group has acknowledged it, and returns the ack's result.
   *
   * <p>Throws {@link MessageFailedException} when the message was not done, and OUTCOME_UNKNOWN when it is stored and
   * has not ended in time.
   */
  public byte[] request(String topic, ProducerRecord record, String group, long timeoutMs) {
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    Receipt receipt = produce(topic, record);
    try {
      return result(receipt, group, Math.max(TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime()), 1));
    } catch (FlotillaException error) {
      if (error.code() != ErrorCode.DEADLINE) {
        throw error;
      }
      throw new FlotillaException(
          ErrorCode.OUTCOME_UNKNOWN, "it is stored, and may or may not be done; " + error.getMessage());
    }
  }

  /**
   * Waits until the message of a receipt has ended in the group, and returns the result of its ack; empty if the ack
   * carried none. Throws {@link MessageFailedException}, FORGOTTEN, and DEADLINE when it has not ended in time.
   */
  public byte[] result(Receipt receipt, String group, long timeoutMs) {
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    while (true) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
      if (leftMs <= 0) {
        throw new FlotillaException(ErrorCode.DEADLINE, receipt + " has not ended within " + timeoutMs + " ms");
      }
      long waitMs = Math.min(leftMs, RESULT_WAIT_MS);
      ReadResultsRequest request =
          ReadResultsRequest.newBuilder()
              .setTopic(receipt.topic())
              .setPartition(receipt.partition())
              .setGroup(group)
              .addOffsets(receipt.offset())
              .setWaitMs((int) waitMs)
              .setTopicId(receipt.topicId())
              .build();
      ReadResultsReply reply =
          Calls.wait(calls.start(FlotillaGrpc.getReadResultsMethod(), request, Effect.READ, timeoutMs(), waitMs));
      if (reply.getEndedCount() > 0) {
        return resultOf(receipt, reply.getEnded(0));
      }
    }
  }

  private static byte[] resultOf(Receipt receipt, EndedMessage ended) {
    String text = receipt + " is " + ended.getState() + ": " + ended.getReason();
    return switch (ended.getState()) {
      case "acked" -> ended.getResult().toByteArray();
      case "" -> throw new FlotillaException(ErrorCode.OFFSET_OUT_OF_RANGE, "there is no message " + receipt);
      case "forgotten" -> throw new FlotillaException(ErrorCode.FORGOTTEN, text);
      default -> throw new MessageFailedException(text, ended.getState(), ended.getReason(), ended.getAttempts());
    };
  }

  // Transactions.

  /** A transaction: records of several topics that become visible together, or not at all. */
  public Transaction transaction() {
    return new Transaction(this, null, 0);
  }

  /**
   * The same under an id of your own. It is aborted when it is not decided within {@code transactionTimeoutMs} of its
   * first stage (0: as its topics say).
   */
  public Transaction transaction(String transactionId, int transactionTimeoutMs) {
    return new Transaction(this, transactionId, transactionTimeoutMs);
  }

  /**
   * Commits the records staged under this id in these partitions, by whatever process, and returns when they are visible
   * there. False: the application had committed this version or a newer one before, and the staged records are dropped;
   * an application without versions is "" and 0. Throws TRANSACTION_ENDED when it was aborted.
   */
  public boolean commitTransaction(
      String transactionId, Collection<Participant> partitions, String applicationId, long version) {
    Decision decision = new Decision(this, transactionId, Set.copyOf(partitions));
    boolean isCommitted = decision.commit(applicationId, version);
    if (isCommitted) {
      decision.awaitShown();
    }
    return isCommitted;
  }

  /**
   * Drops the records staged under this id. Throws TRANSACTION_ENDED when it was committed. Partitions that are not named
   * drop their part as well, a little later.
   */
  public void abortTransaction(String transactionId, Collection<Participant> partitions) {
    new Decision(this, transactionId, Set.copyOf(partitions)).abort(0);
  }

  // Consuming.

  /** A member of a queue group: its members share the messages of the topic. */
  public QueueConsumer queue(String topic, String group) {
    return queue(topic, group, new QueueOptions());
  }

  /** The same with options. */
  public QueueConsumer queue(String topic, String group, QueueOptions options) {
    return keep(new QueueConsumer(this, topic, group, options));
  }

  /** A worker that runs a handler for the messages of a queue group. */
  public Worker worker(String topic, String group, Handler handler) {
    return worker(topic, group, handler, new WorkerOptions());
  }

  /** The same with options. */
  public Worker worker(String topic, String group, Handler handler, WorkerOptions options) {
    checkOpen();
    Worker worker = new Worker(this, topic, group, handler, options);
    workers.add(worker);
    return worker;
  }

  /** A member of a stream group: its members share the partitions of the topic. */
  public StreamConsumer stream(String topic, String group) {
    return stream(topic, group, new StreamOptions());
  }

  /** The same with options. */
  public StreamConsumer stream(String topic, String group, StreamOptions options) {
    return keep(new StreamConsumer(this, topic, group, options));
  }

  /** A reader of all partitions of a topic, from the oldest record on. */
  public Reader reader(String topic) {
    return reader(topic, new ReaderOptions());
  }

  /** The same with options. */
  public Reader reader(String topic, ReaderOptions options) {
    return keep(new Reader(this, topic, options));
  }

  /** The offset of a place in a partition; -1: no record is at or after that time. */
  public long findOffset(String topic, int partition, Start start) {
    return findOffset(topic, 0, partition, start);
  }

  /** The same in the topic of this id only; 0: any. */
  long findOffset(String topic, long topicId, int partition, Start start) {
    if (start.place == io.flotilla.v1.Start.Place.OFFSET) {
      return start.value;
    }
    ListOffsetsRequest request =
        ListOffsetsRequest.newBuilder()
            .setTopic(topic)
            .setPartition(partition)
            .setTimestampMs(start.timestampMs())
            .setTopicId(topicId)
            .build();
    return calls.call(FlotillaGrpc.getListOffsetsMethod(), request, Effect.READ, timeoutMs()).getOffset();
  }

  /** Commits an offset for a group, and returns its committed offset. It moves back only with {@code reset}. */
  public long commitOffset(String topic, String group, int partition, long offset, boolean reset) {
    return commitOffset(topic, 0, group, partition, offset, reset, 0).getOffset();
  }

  /** The same in the topic of this id only, and for a group that was not deleted since {@code asOf}; 0: any. */
  OffsetReply commitOffset(
      String topic, long topicId, String group, int partition, long offset, boolean reset, long asOf) {
    CommitOffsetRequest request =
        CommitOffsetRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setPartition(partition)
            .setOffset(ProducerRecord.least(0, offset, "an offset"))
            .setReset(reset)
            .setTopicId(topicId)
            .setAsOf(asOf)
            .build();
    return calls.call(FlotillaGrpc.getCommitOffsetMethod(), request, Effect.REPEATABLE, timeoutMs());
  }

  /** The committed offset of a group; empty: it never committed. */
  public OptionalLong committedOffset(String topic, String group, int partition) {
    long found = readOffset(topic, 0, group, partition).getOffset();
    return found < 0 ? OptionalLong.empty() : OptionalLong.of(found);
  }

  /** The same in the topic of this id only, 0: any; with the offset -1 if the group never committed. */
  OffsetReply readOffset(String topic, long topicId, String group, int partition) {
    ReadOffsetRequest request =
        ReadOffsetRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setPartition(partition)
            .setTopicId(topicId)
            .setIsOptional(true)
            .build();
    try {
      return calls.call(FlotillaGrpc.getReadOffsetMethod(), request, Effect.READ, timeoutMs());
    } catch (FlotillaException error) {
      if (error.code() != ErrorCode.NOT_FOUND) {
        throw error;
      }
      // Of a broker of an earlier release an unknown group is no error, but an unknown topic is.
      describeTopic(topic);
      return OffsetReply.newBuilder().setOffset(-1).build();
    }
  }

  /** Messages of a partition from an offset on. Changes nothing for any group. */
  public List<Message> peek(String topic, int partition, long offset, int maxMessages) {
    FetchRequest request =
        FetchRequest.newBuilder()
            .setTopic(topic)
            .setPartition(partition)
            .setOffset(ProducerRecord.least(0, offset, "an offset"))
            .build();
    return calls.call(FlotillaGrpc.getFetchMethod(), request, Effect.READ, timeoutMs()).getMessagesList().stream()
        .limit(maxMessages)
        .map(each -> new Message(topic, each))
        .toList();
  }

  // Groups and single messages.

  /** The groups of a topic by name, with their kind: queue, stream, or offset if a group only commits offsets. */
  public Map<String, String> groups(String topic) {
    return new Groups(this, topic).names();
  }

  /** Lag, leases, totals and members of a queue group. Throws NOT_FOUND. */
  public GroupInfo describeGroup(String topic, String group) {
    return new Groups(this, topic).describe(group);
  }

  /** Changes settings of a group; "" returns to the topic's value. Returns all settings of the group. */
  public Map<String, String> alterGroup(String topic, String group, Map<String, String> settings) {
    return new Groups(this, topic).alter(group, settings);
  }

  /** Delivers nothing to the group until it is resumed; leases stay. Returns the group's settings. */
  public Map<String, String> pauseGroup(String topic, String group) {
    return alterGroup(topic, group, Map.of("paused", "1"));
  }

  /** Ends a pause. Returns the group's settings. */
  public Map<String, String> resumeGroup(String topic, String group) {
    return alterGroup(topic, group, Map.of("paused", "0"));
  }

  /**
   * Moves a group forwards or backwards, and returns the old and new position by partition. Its leases end. With {@code
   * dryRun} nothing changes. Throws GROUP_IN_USE for a stream group that has members.
   */
  public Map<Integer, GroupReset> resetGroup(String topic, String group, Start start, boolean dryRun) {
    return new Groups(this, topic).reset(group, start, dryRun);
  }

  /** Deletes a group with its progress and settings. Throws GROUP_IN_USE while it has members, unless forced. */
  public void deleteGroup(String topic, String group, boolean force) {
    new Groups(this, topic).delete(group, force);
  }

  /** Cancels a message: no group gets it any more. False: there is none. */
  public boolean cancel(String topic, int partition, long offset) {
    return new Groups(this, topic).cancel(partition, offset);
  }

  /** Cancels the messages with this idempotency key, and returns how many there were. */
  public int cancel(String topic, String idempotencyKey) {
    return new Groups(this, topic).cancel(idempotencyKey);
  }

  /** The state of a message in a group, its cause, and what comes next. */
  public Explanation explain(String topic, String group, int partition, long offset) {
    return new Groups(this, topic).explain(group, partition, offset);
  }

  // Other nouns.

  /** The dead letters of a group of a topic. */
  public DeadLetters deadLetters(String topic, String group) {
    return new DeadLetters(this, topic, group);
  }

  /** Recurring messages. */
  public Schedules schedules() {
    return new Schedules(this);
  }

  /** The cluster: its nodes and leaders. */
  public Admin admin() {
    return new Admin(this);
  }

  /** Stops workers, closes consumers, sends what producers hold, and closes every connection. */
  @Override
  public void close() {
    synchronized (closing) {
      if (!isClosed) {
        isClosed = true;
        closeParts();
      }
    }
  }

  private void closeParts() {
    workers.forEach(Worker::stop);
    workers.forEach(Worker::awaitEnd);
    FlotillaException first = null;
    // Producers last: a handler that is being drained may still send something.
    for (Set<AutoCloseable> each : List.of(consumers, producers)) {
      for (AutoCloseable part : each) {
        try {
          part.close();
        } catch (Exception error) {
          first = first == null ? Calls.errorOf(error) : first;
        }
      }
    }
    calls.close();
    timers.shutdownNow();
    if (first != null) {
      throw first.here();
    }
  }

  // What the parts of a client use.

  Calls calls() {
    return calls;
  }

  long timeoutMs() {
    return options.timeoutMs;
  }

  String name() {
    return options.name;
  }

  /** The topic, created if it is missing and the cluster allows that. Throws NOT_FOUND. */
  TopicInfo findTopic(String topic, long timeoutMs) {
    return Calls.wait(startFindTopic(topic, timeoutMs));
  }

  /** The same without waiting. */
  CompletableFuture<TopicInfo> startFindTopic(String topic, long timeoutMs) {
    DescribeRequest request = DescribeRequest.newBuilder().addTopics(topic).setCreate(true).build();
    return calls.start(FlotillaGrpc.getDescribeMethod(), request, Effect.REPEATABLE, timeoutMs).thenApply(found -> {
      if (found.getTopicsCount() == 0) {
        throw new FlotillaException(ErrorCode.NOT_FOUND, "there is no topic " + topic);
      }
      return TopicInfo.of(found.getTopics(0));
    });
  }

  void forget(AutoCloseable part) {
    producers.remove(part);
    consumers.remove(part);
    workers.remove(part);
    if (part instanceof Producer producer) {
      ownProducers.remove(producer.topic(), producer);
    }
  }

  private <T extends AutoCloseable> T keep(T consumer) {
    checkOpen();
    consumers.add(consumer);
    return consumer;
  }

  private Producer ownProducer(String topic) {
    return ownProducers.computeIfAbsent(topic, this::producer);
  }

  private void checkOpen() {
    if (isClosed) {
      throw FlotillaException.closed("the client");
    }
  }
}
