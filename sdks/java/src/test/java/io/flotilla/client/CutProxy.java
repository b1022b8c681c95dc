package io.flotilla.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A TCP proxy in front of a node that cuts all connections when it is told to, or answers nothing any more. */
final class CutProxy implements AutoCloseable {
  private final ServerSocket server;
  private final int port;
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
  private volatile boolean isMute;

  CutProxy(String target) throws IOException {
    this.server = new ServerSocket(0);
    this.port = Integer.parseInt(target.substring(target.indexOf(':') + 1));
    daemon(this::accept);
  }

  String address() {
    return "127.0.0.1:" + server.getLocalPort();
  }

  /** Answers that come from now on are lost; requests still get through. */
  void mute(boolean isMute) {
    this.isMute = isMute;
  }

  void cut() {
    for (Socket socket : sockets) {
      try {
        socket.close();
      } catch (IOException ignored) {
        // It is closed already.
      }
    }
    sockets.clear();
  }

  private void accept() {
    try {
      while (true) {
        Socket client = server.accept();
        Socket node = new Socket("127.0.0.1", port);
        sockets.add(client);
        sockets.add(node);
        daemon(() -> copy(client, node, false));
        daemon(() -> copy(node, client, true));
      }
    } catch (IOException closed) {
      cut();
    }
  }

  private void copy(Socket from, Socket to, boolean isAnswer) {
    byte[] bytes = new byte[65536];
    try (from; to) {
      InputStream in = from.getInputStream();
      OutputStream out = to.getOutputStream();
      for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
        if (!(isAnswer && isMute)) {
          out.write(bytes, 0, count);
        }
      }
    } catch (IOException cut) {
      // Both ends are closed by now.
    }
  }

  private static void daemon(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void close() throws IOException {
    server.close();
    cut();
  }
}
