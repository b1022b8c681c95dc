package io.flotilla.client;

import io.flotilla.v1.ClaimPartitionRequest;
import io.flotilla.v1.CommitOffsetRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.GroupAssignment;
import io.flotilla.v1.HeartbeatRequest;
import io.flotilla.v1.JoinGroupRequest;
import io.flotilla.v1.LeaveGroupRequest;
import io.flotilla.v1.ListOffsetsRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * One member of a stream group: a thread that joins, sends heartbeats, claims partitions and recalls them.
 *
 * <p>Heartbeats name the partitions that the member uses. While those equal its assignment, a heartbeat is parked at
 * the coordinator, which answers when something changes. A partition that is to be given up waits for the application's
 * next poll; after {@code pollMsMax} the member gives it up alone, and its epoch makes later commits fail.
 */
final class StreamMember implements Runnable {
  private static final long BEAT_MS = 500;
  private static final long PARKED_MS_MAX = 10_000;
  private static final int SESSION_MS_DEFAULT = 30_000;

  /** A partition to read from {@code offset} on; recalled when {@code isRecall}. */
  record Change(int partition, long epoch, long offset, long topicId, boolean isRecall, boolean isLost) {}

  private static final class Part {
    private final long epoch;
    private final long topicId;
    private boolean isRecalled;
    private boolean isLost;
    private long recalledNs;

    Part(long epoch, long topicId) {
      this.epoch = epoch;
      this.topicId = topicId;
    }
  }

  private final Calls calls;
  private final String topic;
  private final String group;
  private final String name;
  private final StreamOptions options;
  private final long timeoutMs;
  private final Runnable news;
  private final Deque<Change> changes = new ArrayDeque<>();
  private final Deque<FlotillaException> errors = new ArrayDeque<>();
  private final Map<Integer, Part> parts = new TreeMap<>();
  private Map<Integer, Long> target = new HashMap<>();
  private long generation;
  private long topicId;
  private int firstPartitions;
  private int sessionMs = SESSION_MS_DEFAULT;
  private boolean isJoined;
  private boolean isPolled = true;
  private boolean isClosed;
  private CompletableFuture<?> inFlight;
  private Thread thread;

  StreamMember(Calls calls, String topic, String group, String name, StreamOptions options, long timeoutMs,
      Runnable news) {
    this.calls = calls;
    this.topic = topic;
    this.group = group;
    this.name = name;
    this.options = options;
    this.timeoutMs = timeoutMs;
    this.news = news;
  }

  // For the thread of the application.

  /** The application polls: joins, unless that has happened. */
  synchronized void begin() {
    isPolled = true;
    if (thread == null && !isClosed) {
      thread = new Thread(this, "flotilla-stream-" + topic);
      thread.setDaemon(true);
      thread.start();
    }
    notifyAll();
  }

  /** The next change for the application, or null. */
  synchronized Change nextChange() {
    return changes.poll();
  }

  synchronized void throwError() {
    if (!errors.isEmpty()) {
      throw errors.poll().here();
    }
  }

  /** The application has given up a partition. */
  synchronized void gaveUp(int partition, long epoch) {
    Part part = parts.get(partition);
    if (part != null && part.epoch == epoch) {
      parts.remove(partition);
    }
    notifyAll();
  }

  /** A partition has refused our epoch: another member owns it. */
  synchronized void lost(int partition, long epoch) {
    Part part = parts.get(partition);
    if (part != null && part.epoch == epoch) {
      recall(partition, part, true);
    }
  }

  /** Leaves the group. */
  void close() {
    Thread running;
    synchronized (this) {
      isClosed = true;
      running = thread;
      if (inFlight != null) {
        inFlight.cancel(true);
      }
      notifyAll();
    }
    if (running == null) {
      return;
    }
    try {
      running.join();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    LeaveGroupRequest request =
        LeaveGroupRequest.newBuilder().setTopic(topic).setGroup(group).setMember(name).setTopicId(topicId).build();
    try {
      calls.call(FlotillaGrpc.getLeaveGroupMethod(), request, Effect.REPEATABLE, timeoutMs);
    } catch (FlotillaException error) {
      if (error.isRetryable()) {
        throw error;
      }
      // It was no member any more.
    }
  }

  // The thread of the member.

  @Override
  public void run() {
    while (!isClosed()) {
      try {
        assign(isJoined ? beat() : join());
        settle();
      } catch (CancellationException closed) {
        return;
      } catch (FlotillaException error) {
        failed(error);
      } catch (InterruptedException interrupted) {
        return;
      }
    }
  }

  private GroupAssignment join() throws InterruptedException {
    JoinGroupRequest request =
        JoinGroupRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setMember(name)
            .setClient("flotilla-java")
            .setStrategy(options.strategy)
            .setSessionMs(options.sessionMs)
            .setTopicId(topicId)
            .build();
    GroupAssignment found =
        await(calls.start(FlotillaGrpc.getJoinGroupMethod(), request, Effect.REPEATABLE, timeoutMs));
    isJoined = true;
    return found;
  }

  private GroupAssignment beat() throws InterruptedException {
    HeartbeatRequest.Builder request =
        HeartbeatRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setMember(name)
            .setGeneration(generation)
            .setTopicId(topicId);
    long waitMs;
    synchronized (this) {
      List<Integer> owned = owned();
      request.addAllOwned(owned);
      waitMs = isSettled() ? Math.min(sessionMs / 3, PARKED_MS_MAX) : 0;
    }
    request.setWaitMs((int) waitMs);
    return await(
        calls.start(FlotillaGrpc.getHeartbeatMethod(), request.build(), Effect.REPEATABLE, timeoutMs, waitMs));
  }

  /** The partitions in use, without lost ones that the application has not taken note of. */
  private List<Integer> owned() {
    List<Integer> found = new ArrayList<>();
    parts.forEach((partition, part) -> {
      if (!part.isLost) {
        found.add(partition);
      }
    });
    return found;
  }

  /** Whether the member uses what it is assigned, and nothing else. */
  private boolean isSettled() {
    return parts.size() == target.size() && parts.entrySet().stream()
        .allMatch(each -> !each.getValue().isRecalled && target.get(each.getKey()) == each.getValue().epoch);
  }

  private void assign(GroupAssignment found) throws InterruptedException {
    List<Integer> claims = new ArrayList<>();
    synchronized (this) {
      generation = found.getGeneration();
      topicId = found.getTopicId();
      firstPartitions = found.getFirstPartitions();
      sessionMs = found.getSessionMs() > 0 ? found.getSessionMs() : sessionMs;
      Map<Integer, Long> wanted = new TreeMap<>();
      found.getPartitionsList().forEach(each -> wanted.put(each.getPartition(), each.getEpoch()));
      target = wanted;
      Map.copyOf(parts).forEach((partition, part) -> {
        // Another epoch of the same partition: a move was cancelled, and no other member owned it in between.
        if (wanted.getOrDefault(partition, -1L) != part.epoch) {
          recall(partition, part, false);
        }
      });
      wanted.keySet().stream().filter(each -> !parts.containsKey(each)).forEach(claims::add);
    }
    for (int partition : claims) {
      claim(partition, target.get(partition));
    }
  }

  private void claim(int partition, long epoch) throws InterruptedException {
    ClaimPartitionRequest request =
        ClaimPartitionRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setPartition(partition)
            .setEpoch(epoch)
            .setTopicId(topicId)
            .build();
    try {
      long offset =
          await(calls.start(FlotillaGrpc.getClaimPartitionMethod(), request, Effect.REPEATABLE, timeoutMs))
              .getOffset();
      own(partition, epoch, offset >= 0 ? offset : first(partition, epoch));
    } catch (FlotillaException error) {
      // The next heartbeat does not name it, and the answer assigns it again.
      if (error.code() == ErrorCode.TOPIC_REPLACED
          || error.code() != ErrorCode.STALE_GENERATION && !error.isRetryable()) {
        throw error;
      }
    }
  }

  /** Where the group begins in a partition without a commit. */
  private long first(int partition, long epoch) throws InterruptedException {
    boolean isYoung = firstPartitions > 0 && partition >= firstPartitions;
    Start start = isYoung ? Start.earliest() : options.start;
    if (start.place == io.flotilla.v1.Start.Place.OFFSET) {
      return start.value;
    }
    long found = find(partition, start);
    if (start.place == io.flotilla.v1.Start.Place.EARLIEST) {
      return found;
    }
    // Committed before anything is read: a later owner would find another place.
    CommitOffsetRequest request =
        CommitOffsetRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setPartition(partition)
            .setOffset(found >= 0 ? found : find(partition, Start.latest()))
            .setEpoch(epoch)
            .setTopicId(topicId)
            .build();
    return await(calls.start(FlotillaGrpc.getCommitOffsetMethod(), request, Effect.REPEATABLE, timeoutMs))
        .getOffset();
  }

  private long find(int partition, Start start) throws InterruptedException {
    ListOffsetsRequest request =
        ListOffsetsRequest.newBuilder()
            .setTopic(topic)
            .setPartition(partition)
            .setTimestampMs(start.timestampMs())
            .setTopicId(topicId)
            .build();
    return await(calls.start(FlotillaGrpc.getListOffsetsMethod(), request, Effect.READ, timeoutMs)).getOffset();
  }

  private synchronized void own(int partition, long epoch, long offset) {
    parts.put(partition, new Part(epoch, topicId));
    changes.add(new Change(partition, epoch, offset, topicId, false, false));
    news.run();
  }

  private synchronized void recall(int partition, Part part, boolean isLost) {
    if (part.isRecalled && (part.isLost || !isLost)) {
      return;
    }
    part.isRecalled = true;
    part.isLost = isLost;
    part.recalledNs = System.nanoTime();
    changes.add(new Change(partition, part.epoch, 0, part.topicId, true, isLost));
    notifyAll();
    news.run();
  }

  /** While partitions are to be given up: waits for the application, or for the next heartbeat. */
  private synchronized void settle() throws InterruptedException {
    if (!isSettled() && !isClosed) {
      wait(BEAT_MS);
    }
    long now = System.nanoTime();
    Map.copyOf(parts).forEach((partition, part) -> {
      if (part.isRecalled && now - part.recalledNs >= options.pollMsMax * 1_000_000) {
        recall(partition, part, true);
        parts.remove(partition);
      }
    });
  }

  private synchronized void failed(FlotillaException error) {
    boolean isReplaced = error.code() == ErrorCode.TOPIC_REPLACED;
    try {
      if (isReplaced || error.code() == ErrorCode.STALE_GENERATION) {
        removed();
        if (isReplaced) {
          topicId = 0;
          generation = 0;
        }
      } else if (isJoined && error.isRetryable()) {
        // No coordinator. The member keeps its partitions: a new owner must claim them first, which ends our epoch.
        wait(BEAT_MS);
      } else {
        removed();
        errors.add(error);
        news.run();
        isPolled = false;
        while (!isPolled && !isClosed) {
          wait();
        }
      }
    } catch (InterruptedException interrupted) {
      isClosed = true;
    }
  }

  /** The group has removed this member: all of its partitions are lost. */
  private void removed() {
    isJoined = false;
    target = new HashMap<>();
    Map.copyOf(parts).forEach((partition, part) -> {
      recall(partition, part, true);
      parts.remove(partition);
    });
  }

  private <R> R await(CompletableFuture<R> call) throws InterruptedException {
    synchronized (this) {
      inFlight = call;
      if (isClosed) {
        call.cancel(true);
      }
    }
    try {
      return call.get();
    } catch (ExecutionException error) {
      throw Calls.errorOf(error);
    }
  }

  private synchronized boolean isClosed() {
    return isClosed;
  }
}
