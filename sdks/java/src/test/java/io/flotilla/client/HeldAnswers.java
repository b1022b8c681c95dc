package io.flotilla.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A proxy in front of a node that can keep back what the node sends. */
final class HeldAnswers implements AutoCloseable {
  private final String address;
  private final ServerSocket listener;
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();
  private boolean isHeld;

  HeldAnswers(String address) throws IOException {
    this.address = address;
    this.listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    start(this::accept);
  }

  String address() {
    return "127.0.0.1:" + listener.getLocalPort();
  }

  /** From now on the client gets no answer; its requests still reach the node. */
  synchronized void hold() {
    isHeld = true;
  }

  /** Passes on what was kept back. */
  synchronized void release() {
    isHeld = false;
    notifyAll();
  }

  @Override
  public void close() throws IOException {
    release();
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }

  private void accept() throws IOException {
    String[] node = address.split(":");
    while (true) {
      Socket client = listener.accept();
      Socket broker = new Socket(node[0], Integer.parseInt(node[1]));
      sockets.addAll(List.of(client, broker));
      start(() -> client.getInputStream().transferTo(broker.getOutputStream()));
      start(() -> passAnswers(broker, client));
    }
  }

  private void passAnswers(Socket broker, Socket client) throws IOException, InterruptedException {
    byte[] bytes = new byte[64 << 10];
    for (int count = broker.getInputStream().read(bytes); count >= 0; count = broker.getInputStream().read(bytes)) {
      synchronized (this) {
        while (isHeld) {
          wait();
        }
      }
      client.getOutputStream().write(bytes, 0, count);
    }
  }

  private interface Work {
    void run() throws IOException, InterruptedException;
  }

  private static void start(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.run();
      } catch (IOException | InterruptedException ended) {
        // A connection or the proxy was closed.
      }
    });
    thread.setDaemon(true);
    thread.start();
  }
}
