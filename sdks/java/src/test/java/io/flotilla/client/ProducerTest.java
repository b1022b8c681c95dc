package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ProducerTest {
  private final Node node = Node.shared();

  @Test
  void receiptsComeInTheOrderOfSending() {
    try (Client client = node.client(); Producer producer = client.producer(Node.name("orders"))) {
      List<CompletableFuture<Receipt>> sent =
          IntStream.range(0, 500).mapToObj(i -> producer.send("order " + i)).toList();
      List<Long> offsets = sent.stream().map(each -> Calls.wait(each).offset()).toList();
      assertEquals(IntStream.range(0, 500).mapToObj(Long::valueOf).toList(), offsets);
    }
  }

  @Test
  void everyFieldIsStored() {
    String topic = Node.name("fields");
    try (Client client = node.client()) {
      ProducerRecord full = ProducerRecord.of(new byte[] {0, 1, -1})
          .key("k").header("a", "1").header("a", new byte[] {2}).priority(3).contentType(200)
          .timestampMs(1_700_000_000_000L).ttlMs(1L << 40).maxDeliveries(9);
      client.produceMany(
          topic, List.of(full, ProducerRecord.of("").key(""), ProducerRecord.of("plain").header("ü", "ß")));
      List<Message> found = new ArrayList<>();
      for (Message each : client.peek(topic, 0, 0, 10)) {
        found.add(each);
      }
      Message first = found.stream().filter(each -> each.priority() == 3).findFirst().orElseThrow();
      assertArrayEquals(new byte[] {0, 1, -1}, first.payload());
      assertArrayEquals("k".getBytes(), first.key());
      assertEquals(List.of("a", "a"), first.headers().stream().map(Header::name).toList());
      assertEquals("1", first.header("a"));
      assertEquals(200, first.contentType());
      assertEquals(1_700_000_000_000L, first.timestampMs());
      assertEquals(1L << 40, first.source().getTtlMs());
      assertEquals(9, first.source().getMaxDeliveries());
      assertEquals(0, found.get(1).key().length);
      assertNull(found.get(2).key());
      assertEquals("ß", found.get(2).header("ü"));
    }
  }

  @Test
  void keysGoWhereTheNodeSendsThem() {
    String topic = Node.name("keys");
    try (Client client = node.client()) {
      TopicInfo made = client.createTopic(topic, 4, 0, Map.of());
      assertEquals(4, made.partitions().size());
      for (int i = 0; i < 20; i++) {
        byte[] key = ("key " + i).getBytes();
        var record = io.flotilla.v1.Record.newBuilder().setKey(com.google.protobuf.ByteString.copyFrom(key));
        var request = io.flotilla.v1.ProduceRequest.newBuilder().setTopic(topic).addRecords(record).build();
        int theirs = client.calls()
            .call(io.flotilla.v1.FlotillaGrpc.getProduceMethod(), request, Effect.ONCE, 10_000)
            .getReceipts(0).getPartition();
        assertEquals(theirs, client.produce(topic, ProducerRecord.of("x").key(key)).partition());
      }
      assertThrows(FlotillaException.class, () -> client.produce(topic, ProducerRecord.of("x").partition(4)));
    }
  }

  @Test
  void anIdempotencyKeyIsStoredOnce() {
    String topic = Node.name("idempotent");
    try (Client client = node.client()) {
      Receipt first = client.produce(topic, ProducerRecord.of("a").idempotencyKey("one"));
      List<Receipt> again = client.produceMany(topic, List.of(
          ProducerRecord.of("b"), ProducerRecord.of("a").idempotencyKey("one"), ProducerRecord.of("c")));
      assertFalse(first.duplicate());
      assertTrue(again.get(1).duplicate());
      assertEquals(first.offset(), again.get(1).offset());
      assertEquals(List.of("a", "b", "c"), client.peek(topic, 0, 0, 10).stream().map(Message::text).toList());
      assertEquals(client.describeTopic(topic).topicId(), first.topicId());
    }
  }

  @Test
  void partitionsThatAreAddedAreUsed() {
    String topic = Node.name("grown");
    try (Client client = node.client(); Producer producer = client.producer(topic)) {
      client.createTopic(topic, 1, 0, Map.of());
      assertEquals(0, Calls.wait(producer.send("first")).partition());
      int keyed = Calls.wait(producer.send(ProducerRecord.of("k").key("k"))).partition();
      client.alterTopic(topic, 3, Map.of());
      List<Receipt> receipts = new ArrayList<>();
      for (int i = 0; i < 6; i++) {
        receipts.add(Calls.wait(producer.send("next " + i)));
      }
      // The first one tells the producer of the growth.
      assertEquals(3, receipts.stream().map(Receipt::partition).distinct().count());
      assertEquals(keyed, Calls.wait(producer.send(ProducerRecord.of("k").key("k"))).partition());
    }
  }

  @Test
  void aTopicThatIsCreatedAnewIsAnotherOne() {
    String topic = Node.name("anew");
    try (Client client = node.client(); Producer producer = client.producer(topic)) {
      client.createTopic(topic, 2, 0, Map.of());
      Receipt old = Calls.wait(producer.send("old"));
      client.deleteTopic(topic);
      long topicId = client.createTopic(topic, 2, 0, Map.of()).topicId();
      assertTrue(old.topicId() < topicId);
      Receipt receipt = Calls.wait(producer.send(ProducerRecord.of("new").partition(1)));
      assertEquals(new Receipt(topic, 1, 0, false, topicId), receipt);
      Calls.wait(producer.send("known"));
      // Keys have other places in the next one.
      client.deleteTopic(topic);
      client.createTopic(topic, 3, 0, Map.of());
      FlotillaException refused = assertThrows(
          FlotillaException.class, () -> Calls.wait(producer.send(ProducerRecord.of("late").partition(1))));
      assertEquals(ErrorCode.TOPIC_REPLACED, refused.code());
      assertEquals(2, Calls.wait(producer.send(ProducerRecord.of("next").partition(2))).partition());
    }
  }

  @Test
  void lingeringRecordsShareABatch() {
    try (Client client = node.client();
        Producer producer = client.producer(Node.name("linger"), new ProducerOptions().lingerMs(60_000))) {
      CompletableFuture<Receipt> waits = producer.send("a");
      CompletableFuture<Receipt> too = producer.send("b");
      assertFalse(waits.isDone());
      producer.flush();
      assertEquals(0, Calls.wait(waits).offset());
      assertEquals(1, Calls.wait(too).offset());
    }
  }

  @Test
  void whatNoBrokerTakesIsRefusedAtOnce() {
    try (Client client = node.client()) {
      assertThrows(FlotillaException.class, () -> ProducerRecord.of("x").priority(8));
      FlotillaException large = assertThrows(
          FlotillaException.class, () -> client.produce("large", ProducerRecord.of(new byte[5 << 20])));
      assertEquals(ErrorCode.INVALID_ARGUMENT, large.code());
      FlotillaException name = assertThrows(FlotillaException.class, () -> client.produce("no such name!", "x"));
      assertEquals(ErrorCode.INVALID_ARGUMENT, name.code());
    }
  }

  @Test
  void aDeadAddressIsPassedOver() {
    String addresses = "127.0.0.1:" + Node.freePort() + "," + node.address();
    try (Client client = new Client(addresses)) {
      assertEquals(0, client.produce(Node.name("second"), "x").offset());
    }
  }

  @Test
  void aClosedClientRefuses() {
    Client client = node.client();
    client.close();
    FlotillaException error = assertThrows(FlotillaException.class, () -> client.produce("x", "y"));
    assertEquals(ErrorCode.CONNECTION_CLOSED, error.code());
  }
}
