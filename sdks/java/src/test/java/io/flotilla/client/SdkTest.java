package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * Plays conformance/sdk/*.json with this client, and reports each scenario to tests/conformance/test_java.py. Brokers and
 * faults are those of a harness there, which answers over a control connection.
 */
@Execution(ExecutionMode.CONCURRENT)
@EnabledIfEnvironmentVariable(named = "SDK_CONTROL", matches = ".+", disabledReason = "run by pytest")
class SdkTest {
  private static final long STEP_MS_MAX = 60_000;
  private static final long PAUSE_MS = 20;

  private PrintWriter control;
  private BufferedReader answers;

  @Test
  @Timeout(value = 10, unit = TimeUnit.MINUTES)
  void scenarios() throws Exception {
    String[] address = System.getenv("SDK_CONTROL").split(":");
    try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
      control = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
      answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
      List<String> failed = new ArrayList<>();
      for (Path file : files()) {
        JsonObject content = JsonParser.parseString(Files.readString(file)).getAsJsonObject();
        for (var each : content.getAsJsonArray("scenarios")) {
          Map<?, ?> scenario = (Map<?, ?>) ConformanceValues.read(each);
          String name = file.getFileName().toString().replace(".json", "") + ": " + scenario.get("name");
          String result = play(scenario);
          if (result.startsWith("failed")) {
            failed.add(name + ": " + result);
          }
          control.println(new Gson().toJson(Map.of("scenario", name, "result", result)));
        }
      }
      assertEquals(List.of(), failed);
    }
  }

  private static List<Path> files() throws IOException {
    try (Stream<Path> found = Files.list(Path.of("../../conformance/sdk"))) {
      return found.filter(each -> each.toString().endsWith(".json")).sorted().toList();
    }
  }

  /** Passed, failed with a reason, or what is not offered here. */
  private String play(Map<?, ?> scenario) {
    for (Object step : (List<?>) scenario.get("steps")) {
      if (((Map<?, ?>) step).get("with") instanceof Map<?, ?> with && with.containsKey("certificate")) {
        return "not offered: gRPC asks for no certificate where it is optional";
      }
    }
    try (Play play = new Play(ask("begin", Map.of("at", scenario.get("at"), "protocol", "grpc")))) {
      List<?> steps = (List<?>) scenario.get("steps");
      for (int i = 0; i < steps.size(); i++) {
        try {
          play.perform((Map<?, ?>) steps.get(i));
        } catch (Exception failure) {
          return "failed in step " + (i + 1) + ": " + failure + " in " + steps.get(i);
        }
      }
      return "passed";
    } catch (Exception failure) {
      return "failed: " + failure;
    }
  }

  /** Asks the harness. */
  private Map<String, Object> ask(String verb, Map<?, ?> given) throws IOException {
    control.println(new Gson().toJson(Map.of("do", verb, "with", given)));
    Map<?, ?> answer = (Map<?, ?>) ConformanceValues.read(JsonParser.parseString(answers.readLine()));
    if (answer.get("error") != null) {
      throw new IllegalStateException(verb + ": " + answer.get("error"));
    }
    Map<String, Object> found = new HashMap<>();
    ((Map<?, ?>) answer.get("result")).forEach((key, value) -> found.put((String) key, value));
    return found;
  }

  /** The same with every {@code texts} and {@code range} written out. */
  private static Object expanded(Object value) {
    if (value instanceof List<?> list) {
      return list.stream().map(SdkTest::expanded).toList();
    }
    if (!(value instanceof Map<?, ?> map)) {
      return value;
    }
    for (String kind : List.of("texts", "range")) {
      if (map.get(kind) instanceof List<?> ends) {
        return LongStream.range((Long) ends.get(0), (Long) ends.get(1))
            .mapToObj(each -> kind.equals("texts") ? (Object) Long.toString(each) : (Object) each).toList();
      }
    }
    Map<String, Object> found = new LinkedHashMap<>();
    map.forEach((key, item) -> found.put((String) key, expanded(item)));
    return found;
  }

  /** A producer, and what was sent since the last flush. */
  private record Sending(Producer producer, List<CompletableFuture<Receipt>> sent) implements AutoCloseable {
    void send(List<?> payloads) {
      payloads.forEach(each -> sent.add(producer.send(ConformanceValues.bytes(each))));
    }

    List<Long> flush() {
      List<Long> offsets = sent.stream().map(each -> Calls.wait(each).offset()).toList();
      sent.clear();
      return offsets;
    }

    @Override
    public void close() {
      producer.close();
    }
  }

  /** A worker whose handlers wait until they may end. */
  private record HeldWorker(Worker worker, List<String> begun, CountDownLatch mayEnd) implements AutoCloseable {
    @Override
    public void close() {
      mayEnd.countDown();
      worker.close();
    }
  }

  /** A worker in a process of its own. */
  private static final class Program implements AutoCloseable {
    final Process process;
    final List<String> lines = Collections.synchronizedList(new ArrayList<>());
    private final Thread reading = new Thread(this::read);

    Program(String... arguments) throws IOException {
      String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
      List<String> command = new ArrayList<>(
          List.of(java, "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), Drained.class.getName()));
      command.addAll(List.of(arguments));
      process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      reading.start();
    }

    private void read() {
      new BufferedReader(new InputStreamReader(process.getInputStream())).lines().forEach(lines::add);
    }

    void tell(String line) throws IOException {
      process.getOutputStream().write((line + "\n").getBytes());
      process.getOutputStream().flush();
    }

    boolean hasEnded() {
      return !process.isAlive() && !reading.isAlive();
    }

    @Override
    public void close() throws Exception {
      process.destroyForcibly().waitFor();
      reading.join();
    }
  }

  /** The fields of a step. */
  private record Given(Map<?, ?> fields) {
    String text(String name) {
      return (String) fields.get(name);
    }

    long number(String name, long otherwise) {
      return fields.get(name) instanceof Long found ? found : otherwise;
    }
  }

  /** One scenario. Everything that a step names is kept by its name, and closed at the end, the last one first. */
  private final class Play implements AutoCloseable {
    private final Map<String, Object> variables;
    private final Map<String, Object> named = new LinkedHashMap<>();
    private final Map<String, CompletableFuture<Map<String, Object>>> calls = new HashMap<>();

    Play(Map<String, Object> variables) {
      this.variables = variables;
    }

    @Override
    public void close() throws Exception {
      ask("heal", Map.of());
      List<Object> all = new ArrayList<>(named.values());
      Collections.reverse(all);
      for (Object each : all) {
        try {
          if (each instanceof AutoCloseable part) {
            part.close();
          }
        } catch (FlotillaException expected) {
          // Its scenario is over.
        }
      }
    }

    void perform(Map<?, ?> step) throws Exception {
      Given given = new Given((Map<?, ?>) ConformanceValues.substitute(
          expanded(step.containsKey("with") ? step.get("with") : Map.of()), variables));
      String verb = (String) step.get("do");
      String name = (String) step.get("as");
      if (step.get("start") instanceof String call) {
        calls.put(call, CompletableFuture.supplyAsync(() -> {
          try {
            return act(verb, name, given);
          } catch (Exception error) {
            throw new IllegalStateException(error);
          }
        }));
        return;
      }
      long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STEP_MS_MAX);
      while (true) {
        try {
          Object expected = ConformanceValues.substitute(expanded(step.get("expect")), variables);
          ConformanceValues.check(step, expected, () -> act(verb, name, given));
          return;
        } catch (ConformanceValues.Mismatch mismatch) {
          if (!step.containsKey("eventually") || endNs - System.nanoTime() <= 0) {
            throw mismatch;
          }
          Thread.sleep(PAUSE_MS);
        }
      }
    }

    private <T> T get(String name, Class<T> kind) {
      return kind.cast(named.get(name));
    }

    private Client client() {
      return get("client", Client.class);
    }

    private Map<String, Object> act(String verb, String name, Given given) throws Exception {
      String topic = given.text("topic");
      String group = given.text("group");
      switch (verb) {
        case "connect" -> named.put(name, connect(given));
        case "create_topic" -> createTopic(topic, (int) given.number("replication_factor", 1));
        case "produce" -> {
          ProducerRecord record = ProducerRecord.of(given.text("payload"));
          if (given.text("idempotency_key") != null) {
            record.idempotencyKey(given.text("idempotency_key"));
          }
          String from = given.text("client") == null ? "client" : given.text("client");
          Receipt receipt = get(from, Client.class).produce(topic, record);
          named.put(name, receipt);
          return Map.of("offset", receipt.offset(), "duplicate", receipt.duplicate());
        }
        case "open_producer" -> named.put(name, new Sending(client().producer(topic, options(given)), new ArrayList<>()));
        case "send" -> get(given.text("producer"), Sending.class).send((List<?>) given.fields().get("payloads"));
        case "flush" -> {
          return Map.of("offsets", get(given.text("producer"), Sending.class).flush());
        }
        case "read" -> {
          return Map.of("payloads", read(topic, given.number("offset", 0)));
        }
        case "open_queue" -> named.put(name, client().queue(topic, group, queueOptions(given)));
        case "poll" -> {
          return poll(given, name);
        }
        case "ack" -> ((List<?>) named.get(given.text("messages"))).forEach(each -> ((QueueMessage) each).ack());
        case "commit_acks" -> commitAcks(given);
        case "result" -> {
          Receipt receipt = get(given.text("receipt"), Receipt.class);
          return Map.of("payload", client().result(receipt, group, STEP_MS_MAX));
        }
        case "wait" -> {
          return await(given);
        }
        case "close" -> get(given.text("name"), AutoCloseable.class).close();
        case "describe_group" -> {
          GroupInfo info = client().describeGroup(topic, group);
          return Map.of("lag", info.lag(), "acked_total", info.ackedTotal());
        }
        case "start_worker" -> named.put(name, startWorker(topic, group, queueOptions(given)));
        case "describe_worker" -> {
          return Map.of("begun", List.copyOf(get(given.text("worker"), HeldWorker.class).begun()));
        }
        case "finish" -> get(given.text("worker"), HeldWorker.class).close();
        case "start_process" -> named.put(name, new Program((String) variables.get("servers"), topic, group));
        case "describe_process" -> {
          Program program = get(given.text("process"), Program.class);
          boolean hasEnded = program.hasEnded();
          return Map.of("lines", List.copyOf(program.lines), "has_ended", hasEnded);
        }
        // The process itself would also close its streams.
        case "terminate" -> get(given.text("process"), Program.class).process.toHandle().destroy();
        case "tell" -> get(given.text("process"), Program.class).tell(given.text("line"));
        default -> {
          return ask(verb, given.fields());
        }
      }
      return Map.of();
    }

    private void createTopic(String topic, int replicationFactor) {
      try {
        client().createTopic(topic, 1, replicationFactor, Map.of());
      } catch (FlotillaException error) {
        if (error.code() == ErrorCode.OUTCOME_UNKNOWN) {
          // The controller was replaced meanwhile, as on a busy machine.
          createTopic(topic, replicationFactor);
        } else if (error.code() != ErrorCode.ALREADY_EXISTS) {
          throw error;
        }
      }
    }

    private Client connect(Given given) {
      ClientOptions options = new ClientOptions().timeoutMs(given.number("timeout_ms", 60_000));
      if (given.text("ca") != null) {
        Tls tls = Tls.ca(Path.of(given.text("ca")));
        options.tls(given.text("key") == null
            ? tls : tls.certificate(Path.of(given.text("certificate")), Path.of(given.text("key"))));
      }
      if (given.text("token") != null) {
        options.credentials(Credentials.token(given.text("token")));
      } else if (given.text("user") != null) {
        options.credentials(Credentials.password(given.text("user"), given.text("password")));
      }
      String servers = given.text("servers") == null ? (String) variables.get("servers") : given.text("servers");
      return new Client(servers, options);
    }

    private static ProducerOptions options(Given given) {
      ProducerOptions options = new ProducerOptions();
      return options.batchRecords((int) given.number("batch_records", options.batchRecords))
          .bufferBytesMax(given.number("buffer_bytes_max", options.bufferBytesMax))
          .timeoutMs(given.number("timeout_ms", 60_000));
    }

    private static QueueOptions queueOptions(Given given) {
      QueueOptions options = new QueueOptions();
      if (given.number("visibility_ms", 0) > 0) {
        options.visibilityMs((int) given.number("visibility_ms", 0));
      }
      return options.leaseMsMax(given.number("lease_ms_max", options.leaseMsMax));
    }

    private List<String> read(String topic, long offset) {
      long left = client().findOffset(topic, 0, Start.latest()) - offset;
      List<String> payloads = new ArrayList<>();
      try (Reader reader = client().reader(topic, new ReaderOptions().start(Start.offset(offset)))) {
        while (payloads.size() < left) {
          reader.poll(1_000, 5_000).forEach(each -> payloads.add(each.text()));
        }
      }
      return payloads;
    }

    private Map<String, Object> poll(Given given, String name) {
      QueueConsumer queue = get(given.text("queue"), QueueConsumer.class);
      long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(given.number("wait_ms", 0));
      int count = (int) given.number("count", 1);
      List<QueueMessage> messages = new ArrayList<>();
      while (messages.size() < count && endNs - System.nanoTime() > 0) {
        long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
        messages.addAll(queue.poll(count - messages.size(), leftMs));
      }
      // Also those that nobody names: a message that is dropped is not renewed.
      named.put(name == null ? given.text("queue") + ", polled" : name, messages);
      return Map.of("messages", messages.stream()
          .map(each -> Map.<String, Object>of("payload", each.text(), "attempt", (long) each.attempt())).toList());
    }

    private void commitAcks(Given given) {
      byte[] result = ConformanceValues.bytes(given.fields().get("result"));
      try (Transaction transaction = client().transaction()) {
        ((List<?>) named.get(given.text("messages"))).forEach(each -> transaction.ack((QueueMessage) each, result));
        transaction.commit();
      }
    }

    private Map<String, Object> await(Given given) throws Exception {
      Map<String, Object> found = new HashMap<>();
      try {
        found.putAll(calls.get(given.text("call")).get(given.number("ms", 0), TimeUnit.MILLISECONDS));
        found.put("has_ended", true);
      } catch (TimeoutException notYet) {
        found.put("has_ended", false);
      }
      return found;
    }

    private HeldWorker startWorker(String topic, String group, QueueOptions options) {
      List<String> begun = Collections.synchronizedList(new ArrayList<>());
      CountDownLatch mayEnd = new CountDownLatch(1);
      Worker worker = client().worker(topic, group, message -> {
        begun.add(message.text());
        mayEnd.await();
      }, new WorkerOptions().queue(options));
      return new HeldWorker(worker.start(), begun, mayEnd);
    }
  }
}
