package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WorkerTest {
  private Client client;
  private final String topic = Node.name("work");

  @BeforeEach
  void open() {
    client = Node.shared().client();
    client.createTopic(topic, 2, 0, Map.of("nack_backoff_ms", "10ms", "max_deliveries", "2"));
  }

  @AfterEach
  void close() {
    client.close();
  }

  @Test
  void handlersRunSideBySide() throws Exception {
    client.produceMany(topic, IntStream.range(0, 40).mapToObj(i -> ProducerRecord.of("" + i)).toList());
    AtomicInteger running = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    CountDownLatch together = new CountDownLatch(4);
    CountDownLatch done = new CountDownLatch(40);
    Handler handler = message -> {
      most.accumulateAndGet(running.incrementAndGet(), Math::max);
      together.countDown();
      together.await();
      running.decrementAndGet();
      done.countDown();
    };
    try (Worker worker = client.worker(topic, "g", handler, new WorkerOptions().concurrency(4)).start()) {
      done.await();
    }
    assertEquals(4, most.get());
    assertEquals(0, client.describeGroup(topic, "g").lag());
  }

  @Test
  void handlersRunOnVirtualThreadsWhereTheJvmHasThem() throws Exception {
    boolean hasVirtual = Runtime.version().feature() >= 21;
    for (WorkerOptions options : List.of(new WorkerOptions(), new WorkerOptions().platformThreads())) {
      String group = options.isVirtual ? "virtual" : "platform";
      CompletableFuture<Boolean> isVirtual = new CompletableFuture<>();
      try (Worker worker = client.worker(topic, group, message -> isVirtual.complete(
          hasVirtual && (boolean) Thread.class.getMethod("isVirtual").invoke(Thread.currentThread())), options).start()) {
        client.produce(topic, "task");
        assertEquals(hasVirtual && options.isVirtual, isVirtual.get());
      }
    }
  }

  @Test
  void failuresAreRetriedAndDecisionsKept() throws Exception {
    ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
    ConcurrentLinkedQueue<String> rejects = new ConcurrentLinkedQueue<>();
    CountDownLatch ended = new CountDownLatch(6);
    Handler handler = message -> {
      ended.countDown();
      switch (message.text() + message.attempt()) {
        case "flaky1" -> throw new IllegalArgumentException("once");
        case "later1" -> throw new Retry("later", 0);
        case "bad1" -> throw new Reject("no use");
        default -> {}
      }
    };
    WorkerOptions options = new WorkerOptions()
        .onError((message, error) -> errors.add(message.text()))
        .onReject((message, error) -> rejects.add(message.text()));
    Worker worker = client.worker(topic, "g", handler, options).start();
    List.of("flaky", "later", "bad", "good").forEach(each -> client.produce(topic, each));
    ended.await();
    worker.close();
    assertEquals(List.of("flaky", "later"), errors.stream().sorted().toList());
    assertEquals(List.of("bad"), List.copyOf(rejects));
    assertEquals(6, worker.handledCount());
    assertEquals(2, worker.failedCount());
    assertEquals(1, worker.rejectedCount());
    assertEquals(0, client.describeGroup(topic, "g").lag());
  }

  @Test
  void aStopWaitsForRunningHandlers() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    Worker worker = client.worker(topic, "g", message -> {
      begun.countDown();
      goOn.await();
    }).start();
    client.produce(topic, "slow");
    begun.await();
    worker.stop();
    assertEquals(1, worker.runningCount());
    goOn.countDown();
    worker.close();
    assertEquals(1, worker.handledCount());
    assertEquals(1, client.describeGroup(topic, "g").ackedTotal());
  }

  @Test
  void aStopHandlesWhatIsAcknowledgedAlready() throws Exception {
    try (HeldAnswers answers = new HeldAnswers(Node.shared().address()); Client behind = new Client(answers.address())) {
      CountDownLatch first = new CountDownLatch(1);
      WorkerOptions options = new WorkerOptions().queue(new QueueOptions().autoAck());
      Worker worker = behind.worker(topic, "g", message -> first.countDown(), options).start();
      client.produce(topic, "a");
      first.await();
      answers.hold();
      client.produce(topic, "b");
      while (client.describeGroup(topic, "g").ackedTotal() < 2) {
        Thread.sleep(5);
      }
      worker.stop();
      answers.release();
      worker.close();
      assertEquals(2, worker.handledCount());
    }
  }

  @Test
  void aClientThatIsClosedDrainsItsWorkers() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    Client other = Node.shared().client();
    Worker worker = other.worker(topic, "g", message -> {
      begun.countDown();
      goOn.await();
    }).start();
    client.produce(topic, "slow");
    begun.await();
    CompletableFuture<Void> closing = CompletableFuture.runAsync(other::close);
    while (!worker.isStopping() && !closing.isDone()) {
      Thread.sleep(5);
    }
    goOn.countDown();
    closing.get();
    assertEquals(1, worker.handledCount());
    assertEquals(1, client.describeGroup(topic, "g").ackedTotal());
  }

  @Test
  void whatDoesNotEndInTimeIsGivenBack() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch interrupted = new CountDownLatch(1);
    Handler stuck = message -> {
      begun.countDown();
      try {
        new CountDownLatch(1).await();
      } catch (InterruptedException error) {
        interrupted.countDown();
        throw error;
      }
    };
    Worker worker = client.worker(topic, "g", stuck, new WorkerOptions().drainMs(50)).start();
    client.produce(topic, "stuck");
    begun.await();
    worker.close();
    interrupted.await();
    try (QueueConsumer queue = client.queue(topic, "g")) {
      QueueMessage again = queue.next();
      assertEquals(1, again.attempt());
      again.ack();
    }
  }

  @Test
  void anErrorThatDoesNotPassEndsTheWorker() {
    Worker worker = client.worker(Node.name("missing"), "g", message -> {});
    assertEquals(ErrorCode.NOT_FOUND, assertThrows(FlotillaException.class, worker::run).code());
    assertTrue(assertThrows(FlotillaException.class, worker::close).getMessage().length() > 0);
  }
}
