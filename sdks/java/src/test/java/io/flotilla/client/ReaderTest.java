package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ReaderTest {
  private Client client;
  private final String topic = Node.name("log");

  @BeforeEach
  void open() {
    client = Node.shared().client();
    client.createTopic(topic, 2, 0, Map.of());
    for (int i = 0; i < 10; i++) {
      client.produce(topic, ProducerRecord.of("r" + i).partition(i % 2).timestampMs(1_000 + i).header("n", "" + i % 5));
    }
  }

  @AfterEach
  void close() {
    client.close();
  }

  private List<String> read(Reader reader, int count) {
    List<String> found = new ArrayList<>();
    while (found.size() < count) {
      reader.poll(3, 5_000).forEach(each -> found.add(each.text()));
    }
    return found.stream().sorted().toList();
  }

  @Test
  void everythingIsReadOnceAndPositionsAreCommitted() {
    try (Reader reader = client.reader(topic, new ReaderOptions().group("g"))) {
      assertEquals(IntStream.range(0, 10).mapToObj(i -> "r" + i).toList(), read(reader, 10));
      assertEquals(List.of(), reader.poll(1, 0));
      assertEquals(Map.of(0, 5L, 1, 5L), reader.positions());
      assertEquals(Map.of(0, 5L, 1, 5L), reader.commit());
    }
    assertEquals(OptionalLong.of(5), client.committedOffset(topic, "g", 1));
    client.produce(topic, ProducerRecord.of("late").partition(1));
    try (Reader reader = client.reader(topic, new ReaderOptions().group("g"))) {
      assertEquals("late", reader.next().text());
    }
  }

  @Test
  void aReaderOfATopicThatIsCreatedAnewSaysSo() {
    try (Reader reader = client.reader(topic, new ReaderOptions().group("g"))) {
      read(reader, 10);
      client.deleteTopic(topic);
      client.createTopic(topic, 2, 0, Map.of());
      client.produce(topic, "new");
      assertEquals(ErrorCode.TOPIC_REPLACED, assertThrows(FlotillaException.class, reader::commit).code());
      assertEquals(ErrorCode.TOPIC_REPLACED, assertThrows(FlotillaException.class, () -> reader.poll(1, 20_000)).code());
    }
    assertEquals(OptionalLong.empty(), client.committedOffset(topic, "g", 0));
  }

  @Test
  void aReaderCommitsNothingForAGroupThatWasDeletedAndMadeAnew() {
    for (ReaderOptions options : List.of(new ReaderOptions(), new ReaderOptions().start(Start.earliest()))) {
      try (Reader reader = client.reader(topic, options.group("g"))) {
        read(reader, 10);
        reader.commit();
        client.deleteGroup(topic, "g", false);
        assertEquals(ErrorCode.STALE_GENERATION, assertThrows(FlotillaException.class, reader::commit).code());
        assertEquals(OptionalLong.empty(), client.committedOffset(topic, "g", 0));
        client.commitOffset(topic, "g", 0, 1, false);
        assertEquals(ErrorCode.STALE_GENERATION, assertThrows(FlotillaException.class, reader::commit).code());
        assertEquals(OptionalLong.of(1), client.committedOffset(topic, "g", 0));
        client.deleteGroup(topic, "g", false);
      }
    }
  }

  @Test
  void readersBeginWhereTheyAreTold() {
    try (Reader reader = client.reader(topic, new ReaderOptions().start(Start.offset(4)))) {
      assertEquals(List.of("r8", "r9"), read(reader, 2));
      reader.seek(Start.time(Instant.ofEpochMilli(1_007)));
      assertEquals(List.of("r7", "r8", "r9"), read(reader, 3));
      reader.seek(0, Start.earliest());
      assertEquals("r0", reader.next().text());
    }
    try (Reader reader = client.reader(topic, new ReaderOptions().start(Start.latest()).partitions(0))) {
      assertEquals(List.of(), reader.poll(1, 0));
      client.produce(topic, ProducerRecord.of("new").partition(0));
      assertEquals("new", reader.next().text());
    }
  }

  @Test
  void aFilterMovesThePosition() {
    try (Reader reader = client.reader(topic, new ReaderOptions().header("n", "0").linearizable())) {
      assertEquals(List.of("r0", "r5"), read(reader, 2));
      while (!reader.positions().equals(Map.of(0, 5L, 1, 5L))) {
        assertEquals(List.of(), reader.poll(1, 50));
      }
    }
  }

  @Test
  void removedRecordsAreAnErrorUnlessSkipped() {
    assertEquals(Map.of(0, 3L), client.trim(topic, Map.of(0, 3L)));
    ReaderOptions strict = new ReaderOptions().partitions(0).start(Start.offset(1));
    try (Reader reader = client.reader(topic, strict)) {
      assertEquals(
          ErrorCode.OFFSET_OUT_OF_RANGE, assertThrows(FlotillaException.class, () -> reader.poll(1, 20_000)).code());
    }
    ReaderOptions skipping = new ReaderOptions().partitions(0).start(Start.offset(1)).skipRemoved();
    try (Reader reader = client.reader(topic, skipping)) {
      assertEquals("r6", reader.next().text());
    }
    assertEquals(Map.of(0, 5L, 1, 5L), client.purge(topic));
  }
}
