package io.flotilla.client;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Runs a handler for the messages of a queue group, a bounded number at a time, until it is stopped; made by {@link
 * Client#worker}.
 *
 * <p>Messages are leased only for free slots, so a slow handler keeps none from other workers, and leases are renewed
 * while handlers run. Stopping is a drain: the worker leases nothing more and waits for running handlers up to {@code
 * drainMs}. Then it gives back the rest, which does not count as an attempt, and interrupts their threads.
 */
public final class Worker implements AutoCloseable {
  private static final Logger LOG = Logger.getLogger(Worker.class.getName());
  /** After an error of the cluster, before messages are asked for again. */
  private static final long PAUSE_MS = 1_000;
  private static final long WAIT_MS = 20_000;
  /** Errors that do not pass: the worker ends with them. */
  private static final Set<ErrorCode> FATAL = Set.of(
      ErrorCode.GROUP_MODE, ErrorCode.INVALID_ARGUMENT, ErrorCode.NOT_FOUND, ErrorCode.CONNECTION_CLOSED,
      ErrorCode.UNAUTHENTICATED, ErrorCode.PERMISSION_DENIED, ErrorCode.UNSUPPORTED);

  private final QueueConsumer consumer;
  private final Handler handler;
  private final WorkerOptions options;
  private final Semaphore free;
  private final CountDownLatch stopping = new CountDownLatch(1);
  private final CountDownLatch ended = new CountDownLatch(1);
  private final AtomicInteger running = new AtomicInteger();
  private final AtomicLong handledCount = new AtomicLong();
  private final AtomicLong failedCount = new AtomicLong();
  private final AtomicLong rejectedCount = new AtomicLong();
  private volatile boolean isStarted;
  private volatile FlotillaException failure;

  Worker(Client client, String topic, String group, Handler handler, WorkerOptions options) {
    this.consumer = new QueueConsumer(client, topic, group, options.queue);
    this.handler = handler;
    this.options = options;
    this.free = new Semaphore(options.concurrency);
  }

  /** Handles messages until {@link #stop}, called by another thread; then drains. Throws errors that do not pass. */
  public void run() {
    synchronized (this) {
      if (isStarted) {
        throw FlotillaException.invalid("a worker runs once");
      }
      isStarted = true;
    }
    ExecutorService threads = threads();
    try {
      while (stopping.getCount() > 0) {
        takeMessages(threads);
      }
    } catch (FlotillaException error) {
      failure = error;
      throw error;
    } finally {
      try {
        drain(threads);
      } finally {
        consumer.client().forget(this);
        ended.countDown();
      }
    }
  }

  /** Runs in a thread of its own until {@link #close}. */
  public Worker start() {
    Thread thread = new Thread(
        () -> {
          try {
            run();
          } catch (FlotillaException error) {
            LOG.log(Level.SEVERE, "the worker of " + consumer.topic() + " ended", error);
          }
        },
        "flotilla-worker-" + consumer.topic());
    thread.start();
    return this;
  }

  /** Begins the drain. Any thread may call it, a shutdown hook included, also before the worker runs. */
  public void stop() {
    stopping.countDown();
    consumer.stopPolling();
  }

  /** Stops, and waits until the drain is over. Throws the error that ended the worker, if one did. */
  @Override
  public void close() {
    stop();
    awaitEnd();
    if (failure != null) {
      throw failure.here();
    }
  }

  boolean isStopping() {
    return stopping.getCount() == 0;
  }

  /** Waits until the drain is over; a worker that does not run has none. */
  void awaitEnd() {
    if (isStarted) {
      try {
        ended.await();
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Messages whose handler has ended. */
  public long handledCount() {
    return handledCount.get();
  }

  /** Of these, failed attempts, {@link Retry} included. */
  public long failedCount() {
    return failedCount.get();
  }

  /** And rejected messages. */
  public long rejectedCount() {
    return rejectedCount.get();
  }

  /** Handlers that are running. */
  public int runningCount() {
    return running.get();
  }

  private void takeMessages(ExecutorService threads) {
    int slots = 0;
    try {
      free.acquire();
      slots = 1 + free.drainPermits();
      List<QueueMessage> messages = consumer.poll(slots, WAIT_MS);
      slots -= messages.size();
      messages.forEach(message -> threads.execute(() -> handle(message)));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      stop();
    } catch (FlotillaException error) {
      if (stopping.getCount() > 0) {
        waitOut(error);
      }
    } finally {
      free.release(slots);
    }
  }

  private void waitOut(FlotillaException error) {
    if (FATAL.contains(error.code())) {
      throw error;
    }
    LOG.log(Level.WARNING, "topic {0}, group {1}: {2}", new Object[] {consumer.topic(), consumer.group(), error});
    try {
      stopping.await(PAUSE_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      stop();
    }
  }

  private void handle(QueueMessage message) {
    running.incrementAndGet();
    try {
      Outcome outcome = Outcome.ACKED;
      try {
        handler.handle(message);
      } catch (Throwable error) {
        outcome = Outcome.of(error);
        note(message, outcome, error);
      }
      handledCount.incrementAndGet();
      if (!message.isSettled()) {
        Calls.wait(consumer.settle(message, outcome, null));
      }
    } catch (FlotillaException error) {
      LOG.log(Level.WARNING, "{0} could not be settled: {1}", new Object[] {message, error});
    } finally {
      running.decrementAndGet();
      free.release();
    }
  }

  private void note(QueueMessage message, Outcome outcome, Throwable error) {
    boolean isFailed = outcome.kind() == Outcome.Kind.FAIL;
    boolean isRejected = outcome.kind() == Outcome.Kind.REJECT;
    LOG.log(isFailed && !(error instanceof Retry) ? Level.WARNING : Level.INFO,
        message + ", attempt " + message.attempt() + ": " + outcome.kind() + " " + outcome.reason(), error);
    try {
      if (isFailed) {
        failedCount.incrementAndGet();
        options.onError.accept(message, error);
      } else if (isRejected) {
        rejectedCount.incrementAndGet();
        options.onReject.accept(message, error);
      }
    } catch (RuntimeException hookFailed) {
      LOG.log(Level.WARNING, "a hook of the worker of " + consumer.topic() + " failed", hookFailed);
    }
  }

  private void drain(ExecutorService threads) {
    boolean isDrained = false;
    try {
      isDrained = free.tryAcquire(options.concurrency, options.drainMs, TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    try {
      consumer.close();
    } catch (FlotillaException error) {
      LOG.log(Level.WARNING, "the worker of {0} could not leave its group: {1}",
          new Object[] {consumer.topic(), error});
    } finally {
      if (isDrained) {
        free.release(options.concurrency);
        threads.shutdown();
      } else {
        threads.shutdownNow();
      }
    }
  }

  /** Virtual threads where the JVM has them; this library is built for Java 17, which has none. */
  private ExecutorService threads() {
    if (options.isVirtual) {
      try {
        return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
      } catch (ReflectiveOperationException none) {
        LOG.log(Level.FINE, "this JVM has no virtual threads", none);
      }
    }
    AtomicInteger number = new AtomicInteger();
    ThreadFactory factory = task -> {
      Thread thread = new Thread(task, "flotilla-handler-" + consumer.topic() + "-" + number.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
    return Executors.newFixedThreadPool(options.concurrency, factory);
  }
}
