package io.flotilla.client;

import io.flotilla.v1.CommitOffsetRequest;
import io.flotilla.v1.FlotillaGrpc;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * A member of a stream group; made by {@link Client#stream}. For one thread at a time.
 *
 * <p>Each partition is read by one member, in order, from where the group last committed. Partitions move when members
 * come and go, between two polls: callbacks run in the thread that polls. A message counts as handled when the
 * application polls again, so an automatic commit never includes one that is still in its handler.
 */
public final class StreamConsumer extends PolledMessages implements AutoCloseable {
  private final Client client;
  /** Held while it is closed: a second call returns when the first one is done. */
  private final Object closing = new Object();
  private final String topic;
  private final String group;
  private final StreamOptions options;
  private final long timeoutMs;
  private final String name;
  private final Fetches fetches;
  private final StreamMember member;
  /** Epoch and topic of each partition that is read. */
  private final Map<Integer, StreamMember.Change> owned = new TreeMap<>();
  private final Map<Integer, Long> committed = new TreeMap<>();
  /** The first offset, by partition, of the messages that are being handled. */
  private final Map<Integer, Long> inHand = new TreeMap<>();
  private long commitDueNs;

  StreamConsumer(Client client, String topic, String group, StreamOptions options) {
    if (group.isEmpty()) {
      throw FlotillaException.invalid("a stream is shared by a group");
    }
    this.client = client;
    this.topic = topic;
    this.group = group;
    this.options = options;
    this.timeoutMs = options.timeoutMs > 0 ? options.timeoutMs : client.timeoutMs();
    this.name = client.name() + "-" + UUID.randomUUID();
    this.fetches = new Fetches(client.calls(), topic, options.fetch.build(), options.skipsRemoved, timeoutMs);
    this.member = new StreamMember(client.calls(), topic, group, name, options, timeoutMs, fetches::notifyNews);
    this.commitDueNs = System.nanoTime();
  }

  /** The name of this member in the group. */
  public String member() {
    return name;
  }

  /** The partitions that this member reads now. */
  public List<Integer> assignment() {
    return List.copyOf(owned.keySet());
  }

  /** Up to so many messages; waits up to {@code waitMs} for the first one. Empty: there was none. */
  @Override
  public List<Message> poll(int maxMessages, long waitMs) {
    ProducerRecord.least(1, maxMessages, "maxMessages");
    checkOpen();
    inHand.clear();
    member.begin();
    long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    while (true) {
      catchUp();
      List<Message> messages = take(maxMessages);
      messages.forEach(each -> inHand.putIfAbsent(each.partition(), each.offset()));
      if (!messages.isEmpty() || deadlineNs - System.nanoTime() <= 0) {
        return messages;
      }
      fetches.awaitNews(deadlineNs);
      checkOpen();
    }
  }

  /** Commits everything that was delivered. Returns the committed offsets. Throws STALE_GENERATION. */
  public Map<Integer, Long> commit() {
    return commit(fetches.positions());
  }

  /** Commits chosen offsets, by partition: the next ones that the group will read. */
  public Map<Integer, Long> commit(Map<Integer, Long> offsets) {
    Map<Integer, Long> done = new TreeMap<>();
    offsets.forEach((partition, offset) -> done.put(partition, save(partition, offset)));
    return done;
  }

  /** The offset of the next message, by partition. */
  public Map<Integer, Long> positions() {
    return fetches.positions();
  }

  /** Moves one partition that this member reads. */
  public void seek(int partition, Start start) {
    long found = client.findOffset(topic, partition, start);
    fetches.seek(partition, found >= 0 ? found : client.findOffset(topic, partition, Start.latest()));
    inHand.remove(partition);
  }

  /** Delivers nothing of these partitions until they are resumed; they stay this member's. */
  public void pause(Collection<Integer> partitions) {
    fetches.pause(partitions, true);
  }

  /** Ends a pause. */
  public void resume(Collection<Integer> partitions) {
    fetches.pause(partitions, false);
  }

  /** Commits what was handled, if it commits by itself, and leaves the group: others get its partitions at once. */
  @Override
  public void close() {
    synchronized (closing) {
      if (isClosed) {
        return;
      }
      isClosed = true;
      inHand.clear();
      try {
        giveUp(List.copyOf(owned.values()), false);
      } finally {
        fetches.close();
        member.close();
        client.forget(this);
      }
    }
  }

  private List<Message> take(int maxMessages) {
    try {
      return fetches.take(maxMessages);
    } catch (FlotillaException error) {
      if (error.code() != ErrorCode.TOPIC_REPLACED) {
        throw error;
      }
      // The member hears of it by its heartbeat, and joins the group of the new topic.
      return List.of();
    }
  }

  /** Takes in changes of the group since the last call, and commits when that is due. */
  private void catchUp() {
    List<Integer> added = new ArrayList<>();
    for (var change = member.nextChange(); change != null; change = member.nextChange()) {
      if (change.isRecall()) {
        added.remove((Integer) change.partition());
        StreamMember.Change mine = owned.get(change.partition());
        if (mine != null && mine.epoch() == change.epoch()) {
          giveUp(List.of(mine), change.isLost());
        }
        member.gaveUp(change.partition(), change.epoch());
      } else {
        owned.put(change.partition(), change);
        committed.put(change.partition(), -1L);
        fetches.add(change.partition(), change.offset(), change.topicId());
        added.add(change.partition());
      }
    }
    if (!added.isEmpty()) {
      options.onAssign.accept(added);
    }
    member.throwError();
    if (options.autoCommitMs > 0 && System.nanoTime() - commitDueNs >= 0) {
      commitDueNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(options.autoCommitMs);
      saveHandled(List.copyOf(owned.keySet()));
    }
  }

  private void giveUp(List<StreamMember.Change> parts, boolean isLost) {
    List<Integer> numbers = parts.stream().map(StreamMember.Change::partition).toList();
    try {
      if (!numbers.isEmpty()) {
        options.onRevoke.accept(numbers, isLost);
        if (!isLost && options.autoCommitMs > 0) {
          saveHandled(numbers);
        }
      }
    } finally {
      for (int number : numbers) {
        fetches.remove(number);
        owned.remove(number);
        committed.remove(number);
        inHand.remove(number);
      }
    }
  }

  /** Commits what was handled and is not committed; a partition that another member owns by now is passed over. */
  private void saveHandled(List<Integer> partitions) {
    Map<Integer, Long> handled = fetches.positions();
    handled.putAll(inHand);
    for (int partition : partitions) {
      Long offset = handled.get(partition);
      if (offset != null && offset > committed.getOrDefault(partition, -1L)) {
        try {
          save(partition, offset);
        } catch (FlotillaException error) {
          if (error.code() != ErrorCode.STALE_GENERATION) {
            throw error;
          }
        }
      }
    }
  }

  private long save(int partition, long offset) {
    StreamMember.Change mine = owned.get(partition);
    if (mine == null) {
      throw new FlotillaException(
          ErrorCode.STALE_GENERATION, "partition " + partition + " is not one of this member's: " + owned.keySet());
    }
    CommitOffsetRequest request =
        CommitOffsetRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setPartition(partition)
            .setOffset(offset)
            .setEpoch(mine.epoch())
            .setTopicId(mine.topicId())
            .build();
    try {
      long found = client.calls()
          .call(FlotillaGrpc.getCommitOffsetMethod(), request, Effect.REPEATABLE, timeoutMs).getOffset();
      committed.put(partition, found);
      return found;
    } catch (FlotillaException error) {
      if (error.code() == ErrorCode.STALE_GENERATION) {
        member.lost(partition, mine.epoch());
      }
      throw error;
    }
  }

  private void checkOpen() {
    if (isClosed) {
      throw FlotillaException.closed("the consumer");
    }
  }
}
