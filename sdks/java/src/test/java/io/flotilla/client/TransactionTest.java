package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.TransactionOutcomeRequest;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TransactionTest {
  private Client client;
  private final String orders = Node.name("orders");
  private final String invoices = Node.name("invoices");

  @BeforeEach
  void open() {
    client = Node.shared().client();
    client.createTopic(orders, 1, 0, Map.of());
    client.createTopic(invoices, 2, 0, Map.of());
  }

  @AfterEach
  void close() {
    client.close();
  }

  @Test
  void recordsOfSeveralTopicsAppearTogether() {
    try (Transaction transaction = client.transaction()) {
      transaction.produce(orders, ProducerRecord.of("order"));
      transaction.produce(invoices, ProducerRecord.of("a").partition(0));
      transaction.stage(
          invoices, List.of(ProducerRecord.of("b").partition(1), ProducerRecord.of("c").partition(1).priority(2)));
      assertEquals(List.of(), client.peek(invoices, 1, 0, 10));
      assertEquals(ErrorCode.TRANSACTION_ENDED, assertThrows(FlotillaException.class, transaction::receipts).code());
      transaction.commit();
      assertEquals(List.of(0L, 0L, 0L, 1L), transaction.receipts().stream().map(Receipt::offset).toList());
    }
    assertEquals(List.of("b", "c"), client.peek(invoices, 1, 0, 10).stream().map(Message::text).toList());
  }

  @Test
  void aBlockThatThrowsLeavesNothing() {
    client.produce(orders, "order");
    try (QueueConsumer queue = client.queue(orders, "g")) {
      assertThrows(IllegalStateException.class, () -> {
        try (var message = queue.next(); var transaction = client.transaction()) {
          transaction.ack(message);
          transaction.stage(invoices, List.of(ProducerRecord.of("never").partition(0)));
          throw new IllegalStateException();
        }
      });
      QueueMessage again = queue.next();
      assertEquals(1, again.attempt());
      // Acknowledged, and the follow-up produced, in one step.
      Receipt receipt = again.then(invoices, ProducerRecord.of("invoice").partition(0));
      assertEquals(0, receipt.offset());
      assertEquals(List.of(), queue.poll(1, 0));
    }
    assertEquals(List.of("invoice"), client.peek(invoices, 0, 0, 10).stream().map(Message::text).toList());
    assertEquals(0, client.describeGroup(orders, "g").lag());
  }

  @Test
  void aCommitIsRefusedWhenATopicIsReplacedAfterTheStage() {
    String also = Node.name("also");
    client.createTopic(also, 1, 0, Map.of());
    client.produce(orders, "order");
    try (QueueConsumer queue = client.queue(orders, "g")) {
      for (String replaced : List.of(invoices, orders)) {
        QueueMessage message = queue.next();
        Transaction transaction = client.transaction();
        transaction.ack(message);
        transaction.produce(invoices, ProducerRecord.of("invoice").partition(0));
        transaction.stage(also, List.of(ProducerRecord.of("invoice")));
        client.deleteTopic(replaced);
        client.createTopic(replaced, 1, 0, Map.of());
        assertEquals(
            ErrorCode.TOPIC_REPLACED, assertThrows(FlotillaException.class, transaction::commit).code());
        assertEquals(List.of(), client.peek(invoices, 0, 0, 10));
        assertEquals(List.of(), client.peek(also, 0, 0, 10));
      }
    }
  }

  @Test
  void aVersionIsCommittedOnce() {
    String application = Node.name("app");
    for (int i = 0; i < 2; i++) {
      try (Transaction transaction = client.transaction()) {
        transaction.produce(orders, ProducerRecord.of("version 1"));
        transaction.commit(application, 1);
        assertEquals(1 - i, transaction.receipts().size());
      }
    }
    assertEquals(1, client.peek(orders, 0, 0, 10).size());
  }

  @Test
  void aRecordAfterAStageWithoutAnAnswerIsStored() throws Exception {
    try (HeldAnswers answers = new HeldAnswers(Node.shared().address());
        Client behind = new Client(answers.address())) {
      Transaction transaction = behind.transaction();
      transaction.produce(orders, ProducerRecord.of("a"));
      stageUnanswered(behind, transaction, answers);
      transaction.produce(orders, ProducerRecord.of("b"));
      transaction.commit();
      assertEquals(List.of(0L, 1L), transaction.receipts().stream().map(Receipt::offset).toList());
    }
    assertEquals(List.of("a", "b"), client.peek(orders, 0, 0, 10).stream().map(Message::text).toList());
  }

  @Test
  void anAckAfterAStageWithoutAnAnswerIsDone() throws Exception {
    client.produceMany(orders, List.of(ProducerRecord.of("one"), ProducerRecord.of("two")));
    try (HeldAnswers answers = new HeldAnswers(Node.shared().address());
        Client behind = new Client(answers.address());
        QueueConsumer queue = behind.queue(orders, "g")) {
      Transaction transaction = behind.transaction();
      try (QueueMessage one = queue.next(); QueueMessage two = queue.next()) {
        transaction.ack(one);
        stageUnanswered(behind, transaction, answers);
        transaction.ack(two);
        transaction.commit();
      }
    }
    assertEquals(2, client.describeGroup(orders, "g").ackedTotal());
  }

  /** The broker stages what was added for {@code orders}; the thread that waits for the answer is interrupted. */
  private void stageUnanswered(Client behind, Transaction transaction, HeldAnswers answers) throws Exception {
    // The connection is open before: opening it takes answers.
    behind.describeTopic(orders);
    answers.hold();
    FutureTask<FlotillaException> staging = new FutureTask<>(
        () -> assertThrows(FlotillaException.class, () -> transaction.stage(orders, List.of())));
    Thread thread = new Thread(staging);
    thread.start();
    while (!isStaged(transaction)) {
      assertFalse(staging.isDone());
      Thread.sleep(5);
    }
    thread.interrupt();
    assertEquals(ErrorCode.OUTCOME_UNKNOWN, staging.get().code());
    answers.release();
  }

  private boolean isStaged(Transaction transaction) {
    TransactionOutcomeRequest request =
        TransactionOutcomeRequest.newBuilder().setTopic(orders).setTransactionId(transaction.transactionId()).build();
    try {
      return client.calls()
          .call(FlotillaGrpc.getTransactionOutcomeMethod(), request, Effect.READ, client.timeoutMs()).getBegunMs() > 0;
    } catch (FlotillaException error) {
      assertEquals(ErrorCode.NOT_FOUND, error.code());
      return false;
    }
  }

  @Test
  void anotherClientDecidesById() {
    List<Participant> places = List.of(new Participant(orders, 0), new Participant(invoices, 1));
    Transaction staged = client.transaction(Node.name("shared"), 60_000);
    staged.stage(orders, List.of(ProducerRecord.of("order")));
    staged.stage(invoices, List.of(ProducerRecord.of("invoice").partition(1)));
    try (Client other = Node.shared().client()) {
      assertTrue(other.commitTransaction(staged.transactionId(), places, "", 0));
      assertEquals(List.of("order"), client.peek(orders, 0, 0, 10).stream().map(Message::text).toList());
      FlotillaException late = assertThrows(
          FlotillaException.class, () -> other.abortTransaction(staged.transactionId(), places));
      assertEquals(ErrorCode.TRANSACTION_ENDED, late.code());

      Transaction dropped = client.transaction(Node.name("dropped"), 60_000);
      dropped.stage(orders, List.of(ProducerRecord.of("never")));
      other.abortTransaction(dropped.transactionId(), List.of(new Participant(orders, 0)));
      assertEquals(ErrorCode.TRANSACTION_ENDED, assertThrows(FlotillaException.class, dropped::commit).code());
    }
    assertEquals(1, client.peek(orders, 0, 0, 10).size());
  }
}
