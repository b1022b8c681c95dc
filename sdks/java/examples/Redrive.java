import io.flotilla.client.Client;

/** Rejects a message, finds it among the dead letters, and redrives it. */
public class Redrive {
  public static void main(String[] args) {
    String address = args.length > 0 ? args[0] : "localhost:7650";
    try (var client = new Client(address); var queue = client.queue("imports", "loaders")) {
      client.produce("imports", "file 1");
      queue.next().reject("bad header");
      var dead = client.deadLetters("imports", "loaders").reason("header");
      while (dead.list().isEmpty()) {
        // The broker moves it to the dead-letter topic after the answer.
        Thread.onSpinWait();
      }
      System.out.println("redriven: " + dead.redrive().done());
      try (var message = queue.next()) {
        System.out.println("again: " + message.text());
        message.ack();
      }
    }
  }
}
