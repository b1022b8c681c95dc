package io.flotilla.client;

import io.flotilla.v1.OffsetReply;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * A reader of a topic that keeps its own position; made by {@link Client#reader}. For one thread at a time.
 *
 * <p>It shares messages with no other reader, and never ends by itself.
 */
public final class Reader extends PolledMessages implements AutoCloseable {
  private final Client client;
  private final String topic;
  private final ReaderOptions options;
  private final Fetches fetches;
  private boolean isOpen;
  /** Of the topic that it was opened in: one that is created again under its name is another topic. */
  private long topicId;
  /** By partition, as of when the position of the group is known: a group that was deleted since is not moved. */
  private final Map<Integer, Long> asOf = new TreeMap<>();

  Reader(Client client, String topic, ReaderOptions options) {
    this.client = client;
    this.topic = topic;
    this.options = options;
    long timeoutMs = options.timeoutMs > 0 ? options.timeoutMs : client.timeoutMs();
    this.fetches = new Fetches(client.calls(), topic, options.fetch.build(), options.skipsRemoved, timeoutMs);
  }

  /** Up to so many messages; waits up to {@code waitMs} for the first one. Empty: there was none. */
  @Override
  public List<Message> poll(int maxMessages, long waitMs) {
    open();
    long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    while (true) {
      List<Message> messages = fetches.take(ProducerRecord.least(1, maxMessages, "maxMessages"));
      if (!messages.isEmpty() || deadlineNs - System.nanoTime() <= 0) {
        return messages;
      }
      fetches.awaitNews(deadlineNs);
      checkOpen();
    }
  }

  /** Moves all partitions. A seek backwards reads messages again. */
  public void seek(Start start) {
    open();
    positions().keySet().forEach(partition -> seek(partition, start));
  }

  /** Moves one partition. */
  public void seek(int partition, Start start) {
    open();
    fetches.seek(partition, find(partition, start));
  }

  /** The offset of the next message, by partition. */
  public Map<Integer, Long> positions() {
    open();
    return fetches.positions();
  }

  /**
   * Commits the positions for the group. Returns its committed offsets; they never move backwards.
   *
   * <p>Throws STALE_GENERATION when the group was deleted since this reader began: nothing is committed for one that has
   * its name now.
   */
  public Map<Integer, Long> commit() {
    if (options.group.isEmpty()) {
      throw FlotillaException.invalid("a reader without a group commits nothing");
    }
    Map<Integer, Long> found = new TreeMap<>();
    positions().forEach((partition, offset) ->
        found.put(partition, commit(partition, offset)));
    return found;
  }

  private long commit(int partition, long offset) {
    long known = asOf.getOrDefault(partition, 0L);
    OffsetReply found = client.commitOffset(topic, topicId, options.group, partition, offset, false, known);
    asOf.put(partition, Math.max(known, found.getAsOf()));
    return found.getOffset();
  }

  /** Ends the reader; a pending {@code poll} throws CONNECTION_CLOSED. */
  @Override
  public void close() {
    isClosed = true;
    client.forget(this);
    fetches.close();
  }

  private void open() {
    checkOpen();
    if (isOpen) {
      return;
    }
    TopicInfo found = client.describeTopic(topic);
    topicId = found.topicId();
    List<Integer> numbers = options.partitions != null
        ? options.partitions
        : found.partitions().stream().map(TopicInfo.Partition::number).toList();
    for (int number : numbers) {
      fetches.add(number, first(number), topicId);
    }
    isOpen = true;
  }

  private long first(int partition) {
    long committed = options.group.isEmpty() ? -1 : lookUp(partition);
    if (options.start != null) {
      return find(partition, options.start);
    }
    return committed >= 0 ? committed : find(partition, Start.earliest());
  }

  /** The committed offset of the group. The life of the group that is seen first is the one that is committed for. */
  private long lookUp(int partition) {
    OffsetReply found = client.readOffset(topic, topicId, options.group, partition);
    asOf.putIfAbsent(partition, found.getAsOf());
    return found.getOffset();
  }

  private long find(int partition, Start start) {
    long found = client.findOffset(topic, topicId, partition, start);
    // All records are older than the time.
    return found >= 0 ? found : client.findOffset(topic, topicId, partition, Start.latest());
  }

  private void checkOpen() {
    if (isClosed) {
      throw FlotillaException.closed("the reader");
    }
  }
}
