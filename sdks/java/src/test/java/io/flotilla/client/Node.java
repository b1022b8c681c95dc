package io.flotilla.client;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Assumptions;

/**
 * A real broker in a process of its own, started by the command in the variable FLOTILLA ("flotilla" by default).
 *
 * <p>It stops when its standard input is closed, so it ends with the tests, however they end.
 */
final class Node implements AutoCloseable {
  private static final AtomicInteger NAMES = new AtomicInteger();
  private static Node shared;

  private final Process process;
  private final String address;
  private final String nativeAddress;

  Node(Path folder, String... more) {
    List<String> command = command("serve", "--stop-with-stdin", "--data-dir", folder.resolve("data").toString());
    this.address = "127.0.0.1:" + freePort();
    this.nativeAddress = "127.0.0.1:" + freePort();
    command.addAll(List.of("--listen", nativeAddress, "--peer-listen", "127.0.0.1:" + freePort()));
    command.addAll(List.of("--grpc-listen", address, "--http-listen", "off"));
    command.addAll(List.of(more));
    try {
      File log = folder.resolve("log.txt").toFile();
      this.process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log).start();
    } catch (IOException error) {
      throw new IllegalStateException("cannot start " + command, error);
    }
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
  }

  /** The node of all tests that need nothing special. */
  static synchronized Node shared() {
    if (shared == null) {
      shared = new Node(folder());
    }
    return shared;
  }

  static Path folder() {
    try {
      Path folder = Files.createTempDirectory("flotilla-java");
      folder.toFile().deleteOnExit();
      return folder;
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** A name that no other test uses. */
  static String name(String about) {
    return about + "-" + NAMES.incrementAndGet();
  }

  /** The command line of flotilla; the test is skipped where it is not installed. */
  static List<String> command(String... arguments) {
    String found = System.getenv().getOrDefault("FLOTILLA", "flotilla");
    List<String> command = new ArrayList<>(List.of(found.split(" ")));
    boolean isThere = command.get(0).contains("/")
        ? Files.isExecutable(Path.of(command.get(0)))
        : List.of(System.getenv("PATH").split(File.pathSeparator)).stream()
            .anyMatch(each -> Files.isExecutable(Path.of(each, command.get(0))));
    Assumptions.assumeTrue(isThere, "the command " + command.get(0) + " is not installed; set FLOTILLA");
    command.addAll(List.of(arguments));
    return command;
  }

  /** Runs another verb of the command line, and returns its output. */
  static String run(String... arguments) throws IOException, InterruptedException {
    Process process = new ProcessBuilder(command(arguments)).redirectErrorStream(true).start();
    process.getOutputStream().close();
    String output = new String(process.getInputStream().readAllBytes());
    if (process.waitFor() != 0) {
      throw new IllegalStateException(String.join(" ", arguments) + ": " + output);
    }
    return output;
  }

  String address() {
    return address;
  }

  String nativeAddress() {
    return nativeAddress;
  }

  Client client() {
    return new Client(address);
  }

  static int freePort() {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public void close() {
    process.destroy();
    try {
      if (!process.waitFor(20, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException interrupted) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
