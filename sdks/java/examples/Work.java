import io.flotilla.client.Client;
import io.flotilla.client.ProducerRecord;
import io.flotilla.client.Reject;
import io.flotilla.client.WorkerOptions;
import java.util.concurrent.CountDownLatch;

/** Handles tasks four at a time. One fails at first, and one can never succeed: it becomes a dead letter. */
public class Work {
  public static void main(String[] args) throws Exception {
    String address = args.length > 0 ? args[0] : "localhost:7650";
    var handled = new CountDownLatch(4);
    try (var client = new Client(address)) {
      for (String task : new String[] {"mail 1", "mail 2", "broken", "flaky"}) {
        client.produce("mails", ProducerRecord.of(task));
      }
      var worker = client.worker("mails", "senders", message -> {
        handled.countDown();
        if (message.text().equals("broken")) {
          throw new Reject("no such address");
        }
        if (message.text().equals("flaky") && message.attempt() == 1) {
          throw new IllegalStateException("try again");
        }
        System.out.println("sent " + message.text());
      }, new WorkerOptions().concurrency(4));
      worker.start();
      handled.await();
      // Waits for running handlers, and gives back everything else.
      worker.close();
      var dead = client.deadLetters("mails", "senders");
      while (dead.list().isEmpty()) {
        // The broker moves it to the dead-letter topic after the answer.
        Thread.onSpinWait();
      }
      dead.list().forEach(letter ->
          System.out.println("dead: " + new String(letter.payload()) + ", " + letter.reason()));
    }
  }
}
