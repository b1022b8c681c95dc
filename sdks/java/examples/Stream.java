import io.flotilla.client.Client;
import io.flotilla.client.ProducerRecord;
import io.flotilla.client.ReaderOptions;
import io.flotilla.client.Start;

/** Reads a topic as a member of a stream group, commits, and reads it again with a reader. */
public class Stream {
  public static void main(String[] args) {
    String address = args.length > 0 ? args[0] : "localhost:7650";
    try (var client = new Client(address)) {
      for (int i = 0; i < 3; i++) {
        client.produce("events", ProducerRecord.of("event " + i));
      }
      try (var stream = client.stream("events", "counters")) {
        for (int i = 0; i < 3; i++) {
          System.out.println("counted " + stream.next().text());
        }
        stream.commit();
      }
      try (var reader = client.reader("events", new ReaderOptions().start(Start.earliest()))) {
        System.out.println("read again: " + reader.next().text());
      }
    }
  }
}
