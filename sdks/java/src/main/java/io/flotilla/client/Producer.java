package io.flotilla.client;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A producer that sends in the background; made by {@link Client#producer}. For any number of threads.
 *
 * <p>A partition has one batch in flight; records that come meanwhile gather in the next one. So records of a partition
 * are stored in the order of sending, and a batch that is sent again after an error is stored once.
 */
public final class Producer implements AutoCloseable {
  private final Client client;
  private final String topic;
  private final ProducerOptions options;
  private final long timeoutMs;
  private final Map<Integer, ProducerLane> lanes = new HashMap<>();
  private TopicInfo described;
  private int unkeyed = ThreadLocalRandom.current().nextInt(Integer.MAX_VALUE);
  private long bufferedBytes;
  /** Held while it is closed: a second call returns when the first one is done. */
  private final Object closing = new Object();
  private boolean isClosed;

  Producer(Client client, String topic, ProducerOptions options) {
    this.client = client;
    this.topic = topic;
    this.options = options;
    this.timeoutMs = options.timeoutMs > 0 ? options.timeoutMs : client.timeoutMs();
  }

  /** The topic that it produces to. */
  public String topic() {
    return topic;
  }

  /** Sends text; as {@link #send(ProducerRecord)}. */
  public CompletableFuture<Receipt> send(String payload) {
    return send(ProducerRecord.of(payload));
  }

  /** Sends bytes; as {@link #send(ProducerRecord)}. */
  public CompletableFuture<Receipt> send(byte[] payload) {
    return send(ProducerRecord.of(payload));
  }

  /**
   * Sends a record without waiting for the answer. The future has the receipt when a majority of replicas has the
   * record on disk, or a {@link FlotillaException}.
   *
   * <p>Waits while the buffer is full, and throws BUFFER_FULL after the time limit. The first call asks for the topic,
   * and creates it where the cluster allows that.
   */
  public CompletableFuture<Receipt> send(ProducerRecord record) {
    record.prepare();
    int sizeBytes = record.sizeBytes();
    long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    TopicInfo found = describe();
    ProducerLane lane;
    ProducerLane.Pending pending;
    synchronized (this) {
      waitForRoom(sizeBytes, deadlineNs);
      int partition = found.partitionOf(record, unkeyed);
      lane = lanes.computeIfAbsent(partition, number -> new ProducerLane(this, number));
      bufferedBytes += sizeBytes;
      pending = new ProducerLane.Pending(record, new CompletableFuture<>(), sizeBytes, deadlineNs, found);
      lane.add(pending);
    }
    lane.pump();
    return pending.receipt().copy();
  }

  /** Sends many records and waits for all receipts, in their order. Throws the error of the first one that fails. */
  public List<Receipt> sendAll(Collection<ProducerRecord> records) {
    List<CompletableFuture<Receipt>> sent = new ArrayList<>(records.size());
    for (ProducerRecord record : records) {
      sent.add(send(record));
    }
    return sent.stream().map(Calls::wait).toList();
  }

  /** Waits until every record that was sent before has its answer, an error included. */
  public void flush() {
    flush(timeoutMs);
  }

  private boolean flush(long limitMs) {
    List<ProducerLane> all;
    synchronized (this) {
      all = List.copyOf(lanes.values());
    }
    List<CompletableFuture<Receipt>> waiting = new ArrayList<>();
    for (ProducerLane lane : all) {
      waiting.addAll(lane.flush());
    }
    CompletableFuture<Void> ended = CompletableFuture.allOf(waiting.toArray(new CompletableFuture<?>[0]));
    try {
      ended.handle((done, error) -> null).get(limitMs, TimeUnit.MILLISECONDS);
      return true;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return false;
    } catch (ExecutionException | TimeoutException late) {
      return false;
    }
  }

  /** Sends what it holds, up to the time limit, and ends. Records without an answer then fail. */
  @Override
  public void close() {
    synchronized (closing) {
      synchronized (this) {
        if (isClosed) {
          return;
        }
        isClosed = true;
        notifyAll();
      }
      end();
    }
  }

  private void end() {
    boolean isEmpty = flush(timeoutMs);
    client.forget(this);
    if (!isEmpty) {
      List<ProducerLane> all;
      synchronized (this) {
        all = List.copyOf(lanes.values());
      }
      all.forEach(ProducerLane::abandon);
    }
  }

  // What lanes use.

  Client client() {
    return client;
  }

  ProducerOptions options() {
    return options;
  }

  /** A batch has left: records without a key go to the next partition. */
  synchronized void moveOn(int partition) {
    if (described != null && Integer.remainderUnsigned(unkeyed, described.partitions().size()) == partition) {
      unkeyed++;
    }
  }

  synchronized void release(long sizeBytes) {
    bufferedBytes -= sizeBytes;
    notifyAll();
  }

  /** The topic is not as it was described: the next record asks again. */
  synchronized void forgetTopic() {
    described = null;
  }

  private TopicInfo describe() {
    synchronized (this) {
      if (isClosed) {
        throw FlotillaException.closed("the producer");
      }
      if (described != null) {
        return described;
      }
    }
    TopicInfo found = client.findTopic(topic, timeoutMs);
    synchronized (this) {
      described = found;
    }
    return found;
  }

  private void waitForRoom(int sizeBytes, long deadlineNs) {
    while (bufferedBytes > 0 && bufferedBytes + sizeBytes > options.bufferBytesMax && !isClosed) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
      if (leftMs <= 0) {
        throw new FlotillaException(ErrorCode.BUFFER_FULL,
            bufferedBytes + " bytes wait for answers, and none came within " + timeoutMs + " ms; it was not sent");
      }
      try {
        wait(leftMs);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new FlotillaException(ErrorCode.BUFFER_FULL, "interrupted while the buffer was full; it was not sent");
      }
    }
    if (isClosed) {
      throw FlotillaException.closed("the producer");
    }
  }
}
