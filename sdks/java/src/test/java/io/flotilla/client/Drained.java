package io.flotilla.client;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/** A worker as a program: SIGTERM drains it. Its handler says what it does, and ends when a line comes. */
final class Drained {
  private Drained() {}

  public static void main(String[] arguments) {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    try (Client client = new Client(arguments[0])) {
      Worker worker = client.worker(arguments[1], arguments[2], message -> {
        System.out.println("begun " + message.text());
        lines.readLine();
        System.out.println("ended " + message.text());
      }, new WorkerOptions().concurrency(1));
      Runtime.getRuntime().addShutdownHook(new Thread(() -> {
        System.out.println("stopping");
        worker.close();
      }));
      worker.run();
    }
  }
}
