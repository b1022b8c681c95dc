package io.flotilla.client;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * A real broker in a process of its own, started by the command in the variable FLOTILLA ("flotilla" by default).
 *
 * <p>It stops when its standard input is closed, so it ends with the tests, however they end.
 */
final class Node {
  private static final AtomicInteger NAMES = new AtomicInteger();
  private static final Pattern LISTENING = Pattern.compile("\"event\":\"listening\".*?\"grpc\":\"([^\"]+)\"");
  private static Node shared;

  private final String address;

  private Node(Path folder) {
    List<String> command = command("serve", "--stop-with-stdin", "--data-dir", folder.resolve("data").toString());
    // The system chooses the ports: a free one that is looked up before may be another process's by then.
    List.of("--listen", "--peer-listen", "--grpc-listen").forEach(each -> command.addAll(List.of(each, "127.0.0.1:0")));
    command.addAll(List.of("--http-listen", "off"));
    Path log = folder.resolve("log.txt");
    try {
      Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
      Runtime.getRuntime().addShutdownHook(new Thread(() -> end(process, folder)));
      this.address = addressOf(process, log);
    } catch (IOException | InterruptedException error) {
      throw new IllegalStateException("cannot start " + command, error);
    }
  }

  /** Where the node listens, as it says in its log. */
  private static String addressOf(Process process, Path log) throws IOException, InterruptedException {
    while (true) {
      boolean isAlive = process.isAlive();
      Matcher found = LISTENING.matcher(Files.readString(log));
      if (found.find()) {
        return found.group(1);
      }
      if (!isAlive) {
        throw new IllegalStateException("the node ended before it said where it listens: " + Files.readString(log));
      }
      Thread.sleep(20);
    }
  }

  /** The node of all tests that need nothing special. */
  static synchronized Node shared() {
    if (shared == null) {
      shared = new Node(folder());
    }
    return shared;
  }

  private static Path folder() {
    try {
      return Files.createTempDirectory("node");
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void end(Process process, Path folder) {
    process.destroyForcibly().onExit().join();
    try (Stream<Path> files = Files.walk(folder)) {
      files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** A name that no other test uses. */
  static String name(String about) {
    return about + "-" + NAMES.incrementAndGet();
  }

  /** The command line of flotilla; the test is skipped where it is not installed. */
  private static List<String> command(String... arguments) {
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

  String address() {
    return address;
  }

  Client client() {
    // On a busy machine the first call of a test waits until the node has started.
    return new Client(address, new ClientOptions().timeoutMs(60_000));
  }

  static int freePort() {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }
}
