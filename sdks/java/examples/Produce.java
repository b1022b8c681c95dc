import io.flotilla.client.Client;
import io.flotilla.client.ProducerRecord;
import io.flotilla.client.Receipt;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Sends a thousand records without waiting for each answer, then waits for all of them. */
public class Produce {
  public static void main(String[] args) throws Exception {
    String address = args.length > 0 ? args[0] : "localhost:7650";
    try (var client = new Client(address); var producer = client.producer("clicks")) {
      List<CompletableFuture<Receipt>> sent = new ArrayList<>();
      for (int i = 0; i < 1_000; i++) {
        sent.add(producer.send(ProducerRecord.of("click " + i).key("user " + i % 10)));
      }
      producer.flush();
      System.out.println("stored " + sent.size() + ", the last one at offset " + sent.get(999).get().offset());
    }
  }
}
