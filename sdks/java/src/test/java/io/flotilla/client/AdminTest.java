package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class AdminTest {
  private Client client;
  private final String topic = Node.name("admin");

  @BeforeEach
  void open() {
    client = Node.shared().client();
  }

  @AfterEach
  void close() {
    client.close();
  }

  private static ErrorCode code(Runnable call) {
    return assertThrows(FlotillaException.class, call::run).code();
  }

  @Test
  void topics() {
    client.createTopic(topic, 2, 0, Map.of("retention_ms", "1h"));
    assertEquals(ErrorCode.ALREADY_EXISTS, code(() -> client.createTopic(topic)));
    assertEquals(3, client.alterTopic(topic, 3, Map.of()).partitions().size());
    assertTrue(client.topics().stream().anyMatch(each -> each.name().equals(topic)));
    assertEquals(2, client.describeTopic(topic).keyPartitions());
    client.deleteTopic(topic);
    assertEquals(ErrorCode.NOT_FOUND, code(() -> client.describeTopic(topic)));
    assertEquals(List.of(1), client.admin().metadata().brokers().stream().map(Admin.Broker::node).toList());
  }

  @Test
  void groupsAndMessages() {
    client.produceMany(topic, List.of(ProducerRecord.of("a").idempotencyKey("k"), ProducerRecord.of("b")));
    QueueConsumer queue = client.queue(topic, "g");
    QueueMessage first = queue.next();
    assertEquals("leased", client.explain(topic, "g", 0, first.offset()).state());
    assertEquals(2, client.describeGroup(topic, "g").lag());
    assertEquals("queue", client.groups(topic).get("g"));
    assertEquals(ErrorCode.GROUP_IN_USE, code(() -> client.deleteGroup(topic, "g", false)));
    first.ack();
    assertTrue(client.cancel(topic, 0, 1));
    assertEquals(0, client.cancel(topic, "no such key"));
    queue.close();
    assertEquals("1", client.pauseGroup(topic, "g").get("paused"));
    client.resumeGroup(topic, "g");
    assertEquals(0, client.resetGroup(topic, "g", Start.earliest(), true).get(0).toOffset());
    client.deleteGroup(topic, "g", false);
    assertEquals(ErrorCode.NOT_FOUND, code(() -> client.describeGroup(topic, "g")));
    assertEquals(2, client.commitOffset(topic, "o", 0, 2, false));
    assertEquals(1, client.commitOffset(topic, "o", 0, 1, true));
  }

  @Test
  void deadLettersAreRedriven() {
    client.produceMany(topic, List.of(ProducerRecord.of("a"), ProducerRecord.of("b")));
    try (QueueConsumer queue = client.queue(topic, "g")) {
      queue.next().reject("broken pipe");
      queue.next().reject("bad data");
      while (client.deadLetters(topic, "g").list().size() < 2) {
        Thread.onSpinWait();
      }
      DeadLetter letter = client.deadLetters(topic, "g").reason("pipe").list().get(0);
      assertEquals(topic, letter.topic());
      assertEquals(1, letter.attempts());
      assertEquals(new DeadLetters.Redriven(1, 0, 0), client.deadLetters(topic, "g").reason("pipe").dryRun().redrive());
      assertEquals(1, client.deadLetters(topic, "g").reason("pipe").redrive().done());
      QueueMessage again = queue.next();
      assertEquals("a", again.text());
      again.ack();
      assertEquals(1, client.deadLetters(topic, "g").purge().done());
      assertEquals(List.of(), client.deadLetters(topic, "g").list());
    }
  }

  @Test
  void schedules() {
    String name = Node.name("nightly");
    ProducerRecord record = ProducerRecord.of("go").key("k");
    Schedule daily = Schedule.cron(topic, "0 3 * * *").timeZone("Europe/Berlin").record(record);
    assertEquals(topic, client.schedules().create(name, daily).topic());
    assertEquals(ErrorCode.ALREADY_EXISTS, code(() -> client.schedules().create(name, daily)));
    assertEquals("", client.schedules().create(name, Schedule.everyMs(topic, 3_600_000).update()).cron());
    assertTrue(client.schedules().pause(name).paused());
    assertFalse(client.schedules().resume(name).paused());
    client.schedules().run(name);
    assertEquals(1, client.peek(topic, 0, 0, 10).size());
    assertEquals(5, client.schedules().get(name).upcomingMs().size());
    assertTrue(client.schedules().list().stream().anyMatch(each -> each.name().equals(name)));
    client.schedules().delete(name);
    assertEquals(ErrorCode.NOT_FOUND, code(() -> client.schedules().get(name)));
    assertEquals(ErrorCode.INVALID_ARGUMENT,
        code(() -> Schedule.cron(topic, "* * * * *").record(ProducerRecord.of("x").ttlMs(5))));
  }
}
