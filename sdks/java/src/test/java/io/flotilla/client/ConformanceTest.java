package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/**
 * Plays conformance/*.json at a node over gRPC, and reports each scenario to tests/conformance/test_java.py.
 *
 * <p>That test runs the node, and says over a connection of its own when a request has arrived there: a step that is
 * started and not waited for must be at the broker before the next one begins.
 */
@EnabledIfEnvironmentVariable(named = "CONFORMANCE_CONTROL", matches = ".+", disabledReason = "run by pytest")
class ConformanceTest {
  private static final long STEP_MS_MAX = 30_000;
  private static final Set<ErrorCode> PASSING =
      Set.of(ErrorCode.NOT_LEADER, ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED);

  private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  });
  private final Map<Integer, CompletableFuture<String>> answers = new ConcurrentHashMap<>();
  private PrintWriter control;
  private int number;

  @Test
  @Timeout(value = 15, unit = TimeUnit.MINUTES)
  void scenarios() throws Exception {
    String[] address = System.getenv("CONFORMANCE_CONTROL").split(":");
    ManagedChannel channel =
        Grpc.newChannelBuilder(System.getenv("CONFORMANCE_ADDRESS"), InsecureChannelCredentials.create())
            .maxInboundMessageSize(Integer.MAX_VALUE).build();
    try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
      control = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
      BufferedReader lines = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
      threads.execute(() -> listen(lines));
      List<String> failed = new ArrayList<>();
      for (Path file : files()) {
        String name = file.getFileName().toString().replace(".json", "");
        JsonObject content = JsonParser.parseString(Files.readString(file)).getAsJsonObject();
        for (var scenario : content.getAsJsonArray("scenarios")) {
          Map<?, ?> found = (Map<?, ?>) ConformanceValues.read(scenario);
          String result = play(channel, (List<?>) found.get("steps"));
          if (result.startsWith("failed")) {
            failed.add(name + ": " + found.get("name") + ": " + result);
          }
          JsonObject report = new JsonObject();
          report.addProperty("scenario", name + ": " + found.get("name"));
          report.addProperty("result", result);
          control.println(report);
        }
      }
      assertEquals(List.of(), failed);
    } finally {
      channel.shutdownNow();
      threads.shutdownNow();
    }
  }

  private static List<Path> files() throws IOException {
    try (Stream<Path> found = Files.list(Path.of("../../conformance"))) {
      return found.filter(each -> each.toString().endsWith(".json")).sorted().toList();
    }
  }

  /** Passed, failed with a reason, or what is not offered here. */
  private String play(ManagedChannel channel, List<?> steps) {
    for (Object each : steps) {
      Map<?, ?> step = (Map<?, ?>) each;
      if (step.containsKey("do") && !ConformanceOperations.offers((String) step.get("do"))) {
        return "not offered: the operation " + step.get("do");
      }
      if (step.get("with") instanceof Map<?, ?> with && with.get("batch") instanceof Map<?, ?> batch
          && batch.containsKey("compression")) {
        return "not offered: compressed batches";
      }
    }
    return new Play(channel).run(steps);
  }

  private void listen(BufferedReader lines) {
    try {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] parts = line.split(" ");
        answers.computeIfAbsent(Integer.parseInt(parts[1]) * 2 + (parts[0].equals("arrived") ? 1 : 0),
            id -> new CompletableFuture<>()).complete(line);
      }
    } catch (IOException closed) {
      // The test has ended.
    }
  }

  /** One scenario. */
  private final class Play {
    private final Map<String, byte[]> batches = new HashMap<>();
    private final Map<String, Object> variables = new HashMap<>();
    private final Map<String, CompletableFuture<Map<String, Object>>> started = new HashMap<>();
    private final ConformanceOperations operations;

    Play(ManagedChannel channel) {
      int mine = ++number;
      for (String name : List.of("topic", "other", "group")) {
        variables.put(name, "java-" + name + "-" + mine);
      }
      operations = new ConformanceOperations(channel, batches);
    }

    String run(List<?> steps) {
      for (int i = 0; i < steps.size(); i++) {
        Map<?, ?> step = (Map<?, ?>) steps.get(i);
        try {
          perform(step);
        } catch (Exception failure) {
          return "failed in step " + (i + 1) + ": " + failure + " in " + step;
        }
      }
      return "passed";
    }

    private void perform(Map<?, ?> step) throws Exception {
      if (step.containsKey("await")) {
        CompletableFuture<Map<String, Object>> call = started.remove((String) step.get("await"));
        check(step, () -> join(call));
      } else if (step.containsKey("as")) {
        Map<String, Object> request = request(step);
        int id = ++number;
        control.println("{\"watch\": \"" + step.get("do") + "\", \"id\": " + id + "}");
        answer(id * 2).get(STEP_MS_MAX, TimeUnit.MILLISECONDS);
        CompletableFuture<Map<String, Object>> call =
            CompletableFuture.supplyAsync(() -> operations.call((String) step.get("do"), request), threads);
        started.put((String) step.get("as"), call);
        // It may also be refused before it gets anywhere.
        CompletableFuture.anyOf(answer(id * 2 + 1), call.handle((reply, error) -> null))
            .get(STEP_MS_MAX, TimeUnit.MILLISECONDS);
      } else {
        repeat(step);
      }
    }

    private CompletableFuture<String> answer(int id) {
      return answers.computeIfAbsent(id, each -> new CompletableFuture<>());
    }

    private void repeat(Map<?, ?> step) throws Exception {
      long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STEP_MS_MAX);
      while (true) {
        ErrorCode[] code = new ErrorCode[1];
        try {
          check(step, () -> {
            try {
              return operations.call((String) step.get("do"), request(step));
            } catch (FlotillaException error) {
              code[0] = error.code();
              throw error;
            }
          });
          return;
        } catch (ConformanceValues.Mismatch mismatch) {
          boolean mayPass = Boolean.TRUE.equals(step.get("eventually")) || code[0] != null && PASSING.contains(code[0]);
          if (!mayPass || endNs - System.nanoTime() <= 0) {
            throw mismatch;
          }
          Thread.sleep(10);
        }
      }
    }

    private Map<String, Object> request(Map<?, ?> step) {
      @SuppressWarnings("unchecked")
      Map<String, Object> with = (Map<String, Object>) ConformanceValues.substitute(step.get("with"), variables);
      if (with.get("batch") instanceof Map<?, ?> batch) {
        byte[] data = ConformanceValues.encode(batch);
        with.put("batch", data);
        if (batch.get("name") != null) {
          batches.put((String) batch.get("name"), data);
        }
      }
      return with;
    }

    private void check(Map<?, ?> step, Callable<Map<String, Object>> call) throws Exception {
      Object expected = ConformanceValues.substitute(step.get("expect"), variables);
      ConformanceValues.check(step, expected, call).ifPresent(found -> {
        if (step.get("bind") instanceof Map<?, ?> bind) {
          bind.forEach((name, path) -> variables.put((String) name, at(found, (String) path)));
        }
      });
    }

    private static Object at(Object found, String path) {
      Object value = found;
      for (String key : path.split("\\.")) {
        value = value instanceof List<?> list ? list.get(Integer.parseInt(key)) : ((Map<?, ?>) value).get(key);
      }
      return value;
    }

    private static Map<String, Object> join(CompletableFuture<Map<String, Object>> call) {
      try {
        return call.orTimeout(STEP_MS_MAX, TimeUnit.MILLISECONDS).join();
      } catch (CompletionException error) {
        if (error.getCause() instanceof FlotillaException refused) {
          throw refused;
        }
        throw error;
      }
    }
  }
}
