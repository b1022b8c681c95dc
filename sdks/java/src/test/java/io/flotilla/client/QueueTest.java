package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class QueueTest {
  private Client client;
  private final String topic = Node.name("tasks");

  @BeforeEach
  void open() {
    client = Node.shared().client();
    client.createTopic(topic, 1, 0, Map.of("nack_backoff_ms", "10ms"));
  }

  @AfterEach
  void close() {
    client.close();
  }

  @Test
  void anAckedMessageIsDone() {
    client.produce(topic, "a");
    try (QueueConsumer queue = client.queue(topic, "g")) {
      try (var message = queue.next()) {
        assertEquals("a", message.text());
        assertEquals(1, message.attempt());
        message.ack();
        assertTrue(message.isSettled());
      }
      assertEquals(List.of(), queue.poll(1, 0));
    }
    assertEquals(1, client.describeGroup(topic, "g").ackedTotal());
  }

  @Test
  void aBlockThatThrowsFailsTheAttempt() {
    client.produce(topic, "a");
    try (QueueConsumer queue = client.queue(topic, "g")) {
      assertThrows(IllegalStateException.class, () -> {
        try (var message = queue.next()) {
          throw new IllegalStateException("broken " + message);
        }
      });
      try (var message = queue.next()) {
        assertEquals(2, message.attempt());
        message.ack();
      }
    }
  }

  @Test
  void outcomesCountAsTheyShould() {
    List.of("nack", "release", "reject").forEach(each -> client.produce(topic, each));
    try (QueueConsumer queue = client.queue(topic, "g")) {
      for (int i = 0; i < 3; i++) {
        QueueMessage message = queue.next();
        switch (message.text()) {
          case "nack" -> message.nack("not now", 0);
          case "release" -> message.release();
          default -> message.reject("never");
        }
      }
      for (int i = 0; i < 2; i++) {
        QueueMessage message = queue.next();
        assertEquals(message.text().equals("nack") ? 2 : 1, message.attempt());
        message.ack();
      }
    }
    List<DeadLetter> dead = List.of();
    while (dead.isEmpty()) {
      dead = client.deadLetters(topic, "g").list();
    }
    assertEquals("never", dead.get(0).reason());
  }

  @Test
  void extendGivesMoreTime() {
    client.produce(topic, "a");
    QueueOptions options = new QueueOptions().visibilityMs(300).leaseMsMax(1);
    try (QueueConsumer queue = client.queue(topic, "g", options); QueueConsumer other = client.queue(topic, "g")) {
      QueueMessage message = queue.next();
      message.extend(60_000);
      assertEquals(List.of(), other.poll(1, 600));
      message.ack();
    }
  }

  @Test
  void aPollKeepsItsTimeAfterAnIterationAndBesideOne() throws Exception {
    client.produceMany(topic, List.of(ProducerRecord.of("a"), ProducerRecord.of("b")));
    QueueConsumer queue = client.queue(topic, "g");
    for (QueueMessage message : queue) {
      message.ack();
      break;
    }
    assertEquals(List.of("b"), queue.poll(5, 0).stream().map(QueueMessage::text).toList());
    assertEquals(List.of(), queue.poll(1, 20));
    CompletableFuture<ErrorCode> end = new CompletableFuture<>();
    Thread iterating = new Thread(
        () -> end.complete(assertThrows(FlotillaException.class, queue::next).code()));
    iterating.start();
    while (iterating.getState() != Thread.State.WAITING) {
      Thread.sleep(5);
    }
    assertEquals(List.of(), queue.poll(1, 20));
    queue.close();
    assertEquals(ErrorCode.CONNECTION_CLOSED, end.get());
  }

  @Test
  void aClosedConsumerRefuses() {
    QueueConsumer queue = client.queue(topic, "g");
    queue.close();
    assertEquals(ErrorCode.CONNECTION_CLOSED, assertThrows(FlotillaException.class, queue::next).code());
  }

  @Test
  void acksOfManyMessagesAreSentTogether() {
    client.produceMany(topic, IntStream.range(0, 300).mapToObj(i -> ProducerRecord.of("m" + i)).toList());
    try (QueueConsumer queue = client.queue(topic, "g", new QueueOptions().prefetch(100))) {
      List<CompletableFuture<Void>> acks = new ArrayList<>();
      for (int i = 0; i < 300; i++) {
        acks.add(queue.next().ackAsync());
      }
      queue.flush();
      acks.forEach(each -> assertTrue(each.isDone() && !each.isCompletedExceptionally()));
    }
    assertEquals(0, client.describeGroup(topic, "g").lag());
  }

  @Test
  void aCloseSendsWhatWasAckedAlsoWhenTheClientIsClosedMeanwhile() throws Exception {
    client.produceMany(topic, IntStream.range(0, 300).mapToObj(i -> ProducerRecord.of("m" + i)).toList());
    try (HeldAnswers answers = new HeldAnswers(Node.shared().address())) {
      Client behind = new Client(answers.address());
      QueueConsumer queue = behind.queue(topic, "g");
      List<QueueMessage> messages = queue.poll(300, 10_000);
      answers.hold();
      // The second request waits for the answer to the first one.
      List<CompletableFuture<Void>> acks = messages.stream().map(QueueMessage::ackAsync).toList();
      CompletableFuture<Void> first = CompletableFuture.runAsync(queue::close);
      while (!isClosed(queue)) {
        Thread.sleep(5);
      }
      CompletableFuture<Void> second = CompletableFuture.runAsync(behind::close);
      assertThrows(TimeoutException.class, () -> second.get(100, TimeUnit.MILLISECONDS));
      answers.release();
      CompletableFuture.allOf(first, second).get();
      acks.forEach(each -> assertTrue(each.isDone() && !each.isCompletedExceptionally()));
      assertEquals(messages.size(), client.describeGroup(topic, "g").ackedTotal());
    }
  }

  private static boolean isClosed(QueueConsumer queue) {
    try {
      queue.poll(1, 0);
      return false;
    } catch (FlotillaException closed) {
      assertEquals(ErrorCode.CONNECTION_CLOSED, closed.code());
      return true;
    }
  }

  @Test
  void aRequestGetsItsResult() throws Exception {
    try (Worker worker = client.worker(topic, "g", message -> {
      if (message.text().equals("bad")) {
        throw new Reject("it is bad");
      }
      message.ack((message.text() + "!").getBytes());
    }).start()) {
      assertArrayEquals("good!".getBytes(), client.request(topic, ProducerRecord.of("good"), "g", 20_000));
      var failed = assertThrows(
          MessageFailedException.class, () -> client.request(topic, ProducerRecord.of("bad"), "g", 20_000));
      assertEquals("it is bad", failed.reason());
    }
  }

  @Test
  void onlyMessagesWithTheHeaderAreTaken() {
    client.produceMany(topic, List.of(
        ProducerRecord.of("us").header("region", "us"), ProducerRecord.of("eu").header("region", "eu")));
    try (QueueConsumer queue = client.queue(topic, "g", new QueueOptions().header("region", "eu"))) {
      QueueMessage message = queue.next();
      assertEquals("eu", message.text());
      message.ack();
      assertEquals(List.of(), queue.poll(1, 0));
    }
  }

  @Test
  void autoAckNeedsNoSettlement() {
    client.produce(topic, "once");
    try (QueueConsumer queue = client.queue(topic, "g", new QueueOptions().autoAck())) {
      QueueMessage message = queue.next();
      assertTrue(message.isSettled());
      message.close();
    }
    assertFalse(client.describeGroup(topic, "g").lag() > 0);
  }

  @Test
  void withAutoAckAnIterationGetsWhatWasSentBeforeTheClose() {
    client.produceMany(topic, IntStream.range(0, 10).mapToObj(i -> ProducerRecord.of("m" + i)).toList());
    QueueConsumer queue = client.queue(topic, "g", new QueueOptions().autoAck().prefetch(4));
    List<String> found = new ArrayList<>();
    for (QueueMessage message : queue) {
      found.add(message.text());
      queue.close();
    }
    assertEquals(List.of("m0", "m1", "m2", "m3"), found);
    assertEquals(4, client.describeGroup(topic, "g").ackedTotal());
  }
}
