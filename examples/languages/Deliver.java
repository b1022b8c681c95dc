import io.flotilla.client.Client;
import io.flotilla.client.Reject;
import java.util.concurrent.CountDownLatch;

/** Works on three tasks. One cannot be done: it becomes a dead letter. */
public class Deliver {
  public static void main(String[] args) throws Exception {
    String address = args.length > 0 ? args[0] : "localhost:7650";
    String topic = args.length > 1 ? args[1] : "mails";
    var handled = new CountDownLatch(3);
    try (var client = new Client(address)) {
      var worker = client.worker(topic, "senders", message -> {
        handled.countDown();
        if (message.text().equals("nobody")) {
          throw new Reject("no such address");
        }
        System.out.println("sent to " + message.text());
      });
      worker.start();
      handled.await();
      worker.close();
    }
  }
}
