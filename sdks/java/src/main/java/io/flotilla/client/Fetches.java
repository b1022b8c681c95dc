package io.flotilla.client;

import io.flotilla.v1.FetchReply;
import io.flotilla.v1.FetchRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.ListOffsetsRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Messages of some partitions, fetched ahead of the application: the next answer of a partition is awaited while the
 * application works on the one before.
 */
final class Fetches {
  /** How long a broker waits for records before it answers that there are none. */
  private static final int WAIT_MS = 5_000;

  private static final class Part {
    private final int number;
    private final long topicId;
    /** The offset of the next message for the application, and of the next fetch. */
    private long position;
    private long fetchOffset;
    private final Deque<Message> buffered = new ArrayDeque<>();
    private CompletableFuture<?> call;
    private boolean isPaused;

    Part(int number, long topicId, long position) {
      this.number = number;
      this.topicId = topicId;
      seek(position);
    }

    private void seek(long offset) {
      position = offset;
      fetchOffset = offset;
      buffered.clear();
      stop();
    }

    private void stop() {
      CompletableFuture<?> stopped = call;
      // First: a cancelled call ends at once, and its end must not be taken for an answer.
      call = null;
      if (stopped != null) {
        stopped.cancel(true);
      }
    }
  }

  private final Calls calls;
  private final String topic;
  private final FetchRequest template;
  private final boolean skipsRemoved;
  private final long timeoutMs;
  private final Map<Integer, Part> parts = new TreeMap<>();
  private final Deque<FlotillaException> errors = new ArrayDeque<>();
  private boolean hasNews;
  private int turn;

  Fetches(Calls calls, String topic, FetchRequest template, boolean skipsRemoved, long timeoutMs) {
    this.calls = calls;
    this.topic = topic;
    this.template = template;
    this.skipsRemoved = skipsRemoved;
    this.timeoutMs = timeoutMs;
  }

  synchronized void add(int partition, long offset, long topicId) {
    remove(partition);
    parts.put(partition, new Part(partition, topicId, offset));
  }

  synchronized void remove(int partition) {
    Part part = parts.remove(partition);
    if (part != null) {
      part.stop();
    }
  }

  synchronized void seek(int partition, long offset) {
    Part part = parts.get(partition);
    if (part == null) {
      throw FlotillaException.invalid("partition " + partition + " of " + topic + " is not read here");
    }
    part.seek(offset);
  }

  synchronized void pause(Collection<Integer> partitions, boolean isPaused) {
    for (int partition : partitions) {
      Part part = parts.get(partition);
      if (part != null) {
        part.isPaused = isPaused;
      }
    }
  }

  /** The offset of the next message, by partition. */
  synchronized Map<Integer, Long> positions() {
    Map<Integer, Long> found = new TreeMap<>();
    parts.values().forEach(part -> found.put(part.number, part.position));
    return found;
  }

  /** Up to so many messages, from all partitions in turn; starts fetching where nothing is left. Throws errors. */
  synchronized List<Message> take(int max) {
    List<Message> taken = new ArrayList<>();
    List<Part> all = new ArrayList<>(parts.values());
    for (int i = 0; i < all.size(); i++) {
      Part part = all.get((i + turn) % all.size());
      while (taken.size() < max && !part.isPaused && !part.buffered.isEmpty()) {
        Message message = part.buffered.poll();
        part.position = part.buffered.isEmpty() ? part.fetchOffset : message.offset() + 1;
        taken.add(message);
      }
      pump(part);
    }
    turn = all.isEmpty() ? 0 : (turn + 1) % all.size();
    if (taken.isEmpty() && !errors.isEmpty()) {
      throw errors.poll().here();
    }
    return taken;
  }

  /** Waits until something has happened since the last wait. */
  synchronized void awaitNews(long deadlineNs) {
    try {
      while (!hasNews) {
        long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
        if (leftMs <= 0) {
          return;
        }
        wait(leftMs);
      }
      hasNews = false;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new FlotillaException(ErrorCode.CONNECTION_CLOSED, "interrupted while waiting for messages");
    }
  }

  /** Wakes the thread that waits. */
  synchronized void notifyNews() {
    hasNews = true;
    notifyAll();
  }

  synchronized void close() {
    parts.values().forEach(Part::stop);
    parts.clear();
    notifyNews();
  }

  private void pump(Part part) {
    if (part.call != null || part.isPaused || !part.buffered.isEmpty()) {
      return;
    }
    FetchRequest request =
        template.toBuilder()
            .setTopic(topic)
            .setPartition(part.number)
            .setOffset(part.fetchOffset)
            .setTopicId(part.topicId)
            .setWaitMs(WAIT_MS)
            .build();
    CompletableFuture<FetchReply> call =
        calls.start(FlotillaGrpc.getFetchMethod(), request, Effect.READ, timeoutMs, WAIT_MS);
    part.call = call;
    call.whenComplete((reply, error) -> answered(part, call, reply, error));
  }

  private synchronized void answered(Part part, CompletableFuture<?> call, FetchReply reply, Throwable error) {
    if (part.call != call) {
      // The partition was given up, or the application has moved.
      return;
    }
    part.call = null;
    if (error != null) {
      failed(part, Calls.errorOf(error));
      return;
    }
    for (io.flotilla.v1.Message each : reply.getMessagesList()) {
      if (each.getOffset() >= part.fetchOffset) {
        part.buffered.add(new Message(topic, each));
      }
    }
    part.fetchOffset = Math.max(part.fetchOffset, reply.getResumeOffset());
    if (part.buffered.isEmpty()) {
      part.position = part.fetchOffset;
      pump(part);
    } else {
      notifyNews();
    }
  }

  private void failed(Part part, FlotillaException error) {
    if (error.code() == ErrorCode.OFFSET_OUT_OF_RANGE && skipsRemoved) {
      ListOffsetsRequest oldest =
          ListOffsetsRequest.newBuilder()
              .setTopic(topic)
              .setPartition(part.number)
              .setTimestampMs(Start.earliest().timestampMs())
              .setTopicId(part.topicId)
              .build();
      var call = calls.start(FlotillaGrpc.getListOffsetsMethod(), oldest, Effect.READ, timeoutMs);
      part.call = call;
      call.whenComplete((reply, refused) -> skipTo(part, call, reply == null ? -1 : reply.getOffset(), error));
      return;
    }
    errors.add(error);
    notifyNews();
  }

  private synchronized void skipTo(Part part, CompletableFuture<?> call, long oldest, FlotillaException error) {
    if (part.call != call) {
      return;
    }
    part.call = null;
    if (oldest > part.position) {
      part.seek(oldest);
      pump(part);
    } else {
      errors.add(error);
      notifyNews();
    }
  }
}
