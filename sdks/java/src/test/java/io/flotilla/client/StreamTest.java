package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class StreamTest {
  private Client client;
  private final String topic = Node.name("stream");

  @BeforeEach
  void open() {
    client = Node.shared().client();
    client.createTopic(topic, 4, 0, Map.of());
  }

  @AfterEach
  void close() {
    client.close();
  }

  private void produce(int from, int to) {
    client.produceMany(topic,
        IntStream.range(from, to).mapToObj(i -> ProducerRecord.of("r" + i).partition(i % 4)).toList());
  }

  @Test
  void aMemberReadsWhereTheGroupCommitted() {
    produce(0, 8);
    Set<String> found = new HashSet<>();
    try (StreamConsumer stream = client.stream(topic, "g")) {
      while (found.size() < 8) {
        stream.poll(100, 5_000).forEach(each -> found.add(each.text()));
      }
      assertEquals(List.of(0, 1, 2, 3), stream.assignment());
      assertEquals(Map.of(0, 2L, 1, 2L, 2, 2L, 3, 2L), stream.commit());
      assertEquals(
          ErrorCode.STALE_GENERATION,
          assertThrows(FlotillaException.class, () -> stream.commit(Map.of(9, 1L))).code());
    }
    produce(8, 12);
    try (StreamConsumer stream = client.stream(topic, "g")) {
      List<String> rest = new ArrayList<>();
      while (rest.size() < 4) {
        stream.poll(100, 5_000).forEach(each -> rest.add(each.text()));
      }
      assertEquals(Set.of("r8", "r9", "r10", "r11"), Set.copyOf(rest));
    }
    assertEquals("stream", client.groups(topic).get("g"));
  }

  @Test
  void twoMembersShareAndTakeOver() {
    List<Integer> revoked = new ArrayList<>();
    StreamOptions options = new StreamOptions().autoCommitMs(60_000).onRevoke((partitions, isLost) -> {
      assertTrue(!isLost);
      revoked.addAll(partitions);
    });
    produce(0, 8);
    Set<String> found = new HashSet<>();
    try (StreamConsumer one = client.stream(topic, "g", options)) {
      while (found.size() < 8) {
        one.poll(100, 1_000).forEach(each -> found.add(each.text()));
      }
      try (StreamConsumer two = client.stream(topic, "g", new StreamOptions().autoCommitMs(60_000))) {
        while (one.assignment().size() != 2 || two.assignment().size() != 2) {
          assertEquals(List.of(), one.poll(1, 10));
          assertEquals(List.of(), two.poll(1, 10));
        }
        assertEquals(2, revoked.size());
        // What the first member had handled was committed when it gave the partitions up.
        revoked.forEach(each -> assertEquals(OptionalLong.of(2), client.committedOffset(topic, "g", each)));
        produce(8, 12);
        Map<String, String> owners = new java.util.HashMap<>();
        while (owners.size() < 4) {
          one.poll(100, 10).forEach(each -> assertEquals(null, owners.put(each.text(), "one")));
          two.poll(100, 10).forEach(each -> assertEquals(null, owners.put(each.text(), "two")));
        }
        assertEquals(2, owners.values().stream().filter("two"::equals).count());
      }
      while (one.assignment().size() != 4) {
        one.poll(1, 50);
      }
    }
    assertEquals(OptionalLong.of(3), client.committedOffset(topic, "g", 0));
  }

  @Test
  void latestIsWhereTheGroupBegan() {
    produce(0, 4);
    try (StreamConsumer stream = client.stream(topic, "g", new StreamOptions().start(Start.latest()))) {
      while (stream.assignment().size() < 4) {
        assertEquals(List.of(), stream.poll(1, 50));
      }
      produce(4, 5);
      assertEquals("r4", stream.next().text());
      stream.seek(1, Start.earliest());
      assertEquals("r1", stream.next().text());
    }
  }
}
