import io.flotilla.client.Client;
import io.flotilla.client.ProducerRecord;

/** Takes an order and stores its invoice in one transaction: both happen, or neither. */
public class Transfer {
  public static void main(String[] args) {
    String address = args.length > 0 ? args[0] : "localhost:7650";
    try (var client = new Client(address); var queue = client.queue("purchases", "invoicing")) {
      client.produce("purchases", "purchase 1");
      try (var message = queue.next(); var transaction = client.transaction()) {
        transaction.ack(message);
        transaction.produce("invoices", ProducerRecord.of("invoice of " + message.text()));
        transaction.commit();
        System.out.println("invoice at offset " + transaction.receipts().get(0).offset());
      }
    }
  }
}
