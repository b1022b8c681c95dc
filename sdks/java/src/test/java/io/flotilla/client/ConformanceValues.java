package io.flotilla.client;

import com.google.gson.JsonElement;
import com.google.gson.JsonPrimitive;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;

/** Values of scenarios: variables, bytes, batches, and the comparison of answers with expectations. */
final class ConformanceValues {
  private static final Pattern VARIABLE = Pattern.compile("\\$(\\w+)");

  /** The answer is not what the scenario expects. */
  static final class Mismatch extends Exception {
    private static final long serialVersionUID = 1L;

    Mismatch(String message) {
      super(message);
    }
  }

  private ConformanceValues() {}

  /** JSON as maps, lists, texts, booleans and longs. */
  static Object read(JsonElement json) {
    if (json.isJsonNull()) {
      return null;
    }
    if (json.isJsonObject()) {
      Map<String, Object> found = new LinkedHashMap<>();
      json.getAsJsonObject().entrySet().forEach(each -> found.put(each.getKey(), read(each.getValue())));
      return found;
    }
    if (json.isJsonArray()) {
      List<Object> found = new ArrayList<>();
      json.getAsJsonArray().forEach(each -> found.add(read(each)));
      return found;
    }
    JsonPrimitive value = json.getAsJsonPrimitive();
    if (value.isBoolean()) {
      return value.getAsBoolean();
    }
    return value.isNumber() ? (Object) value.getAsLong() : value.getAsString();
  }

  /** The same with every variable replaced; one that stands alone keeps its type. */
  static Object substitute(Object value, Map<String, Object> variables) {
    if (value instanceof Map<?, ?> map) {
      Map<String, Object> found = new LinkedHashMap<>();
      map.forEach((key, item) -> found.put((String) key, substitute(item, variables)));
      return found;
    }
    if (value instanceof List<?> list) {
      List<Object> found = new ArrayList<>();
      list.forEach(item -> found.add(substitute(item, variables)));
      return found;
    }
    if (!(value instanceof String text)) {
      return value;
    }
    Matcher variable = VARIABLE.matcher(text);
    if (variable.matches()) {
      return variables.get(variable.group(1));
    }
    return variable.replaceAll(found -> Matcher.quoteReplacement(String.valueOf(variables.get(found.group(1)))));
  }

  static boolean isBytes(Object value) {
    return value instanceof Map<?, ?> map
        && (map.keySet().equals(Set.of("hex")) || map.keySet().equals(Set.of("repeat", "count")));
  }

  static byte[] bytes(Object value) {
    if (value instanceof String text) {
      return text.getBytes(StandardCharsets.UTF_8);
    }
    Map<?, ?> map = (Map<?, ?>) value;
    return map.containsKey("hex")
        ? HexFormat.of().parseHex((String) map.get("hex"))
        : ((String) map.get("repeat")).repeat(((Long) map.get("count")).intValue()).getBytes(StandardCharsets.UTF_8);
  }

  static void match(Object expected, Object found, String place) throws Mismatch {
    if (found instanceof byte[] data && (expected instanceof String || isBytes(expected))) {
      if (!Arrays.equals(bytes(expected), data)) {
        throw new Mismatch(place + " has other bytes than " + expected);
      }
    } else if (expected instanceof Map<?, ?> map) {
      matchObject(map, found, place);
    } else if (expected instanceof List<?> list) {
      if (!(found instanceof List<?> other) || other.size() != list.size()) {
        throw new Mismatch(place + " is " + found + ", not " + expected);
      }
      for (int i = 0; i < list.size(); i++) {
        match(list.get(i), other.get(i), place + "[" + i + "]");
      }
    } else if (!Objects.equals(expected, found)) {
      throw new Mismatch(place + " is " + found + ", not " + expected);
    }
  }

  /** Makes the call of a step and compares; empty, where the error came that was expected. */
  static Optional<Map<String, Object>> check(
      Map<?, ?> step, Object expected, Callable<Map<String, Object>> call) throws Exception {
    Object expectedError = step.get("expect_error");
    Map<String, Object> found;
    try {
      found = call.call();
    } catch (FlotillaException error) {
      if (!error.code().name().equals(expectedError)) {
        throw new Mismatch(error.toString());
      }
      return Optional.empty();
    }
    if (expectedError != null) {
      throw new Mismatch(expectedError + " was expected, not " + found);
    }
    if (expected != null) {
      match(expected, found, "reply");
    }
    return Optional.of(found);
  }

  private static void matchObject(Map<?, ?> expected, Object found, String place) throws Mismatch {
    if (expected.keySet().equals(Set.of("above"))) {
      if (!(found instanceof Long number) || number <= (Long) expected.get("above")) {
        throw new Mismatch(place + " is " + found + ", not above " + expected.get("above"));
      }
    } else if (!(found instanceof Map<?, ?> map)) {
      throw new Mismatch(place + " is " + found + ", not " + expected);
    } else if (expected.keySet().equals(Set.of("keys"))) {
      if (!List.copyOf(new TreeSet<>(map.keySet())).equals(expected.get("keys"))) {
        throw new Mismatch(place + " has " + map.keySet() + ", not " + expected.get("keys"));
      }
    } else {
      for (Map.Entry<?, ?> each : expected.entrySet()) {
        if (!map.containsKey(each.getKey())) {
          throw new Mismatch(place + " has no " + each.getKey());
        }
        match(each.getValue(), map.get(each.getKey()), place + "." + each.getKey());
      }
    }
  }

  /** A batch as a client would send it, then with everything overwritten that the scenario says. */
  static byte[] encode(Map<?, ?> batch) {
    if (batch.containsKey("raw")) {
      return bytes(batch.get("raw"));
    }
    List<ProducerRecord> records =
        ((List<?>) batch.get("records")).stream().map(each -> record((Map<?, ?>) each)).toList();
    byte[] data = BatchEncoder.encode(
        records, number(batch, "producer_id"), (int) number(batch, "producer_epoch"), (int) number(batch, "sequence"));
    if (batch.get("overwrite") instanceof List<?> changes) {
      for (Object change : changes) {
        byte[] fresh = bytes(((List<?>) change).get(1));
        System.arraycopy(fresh, 0, data, ((Long) ((List<?>) change).get(0)).intValue(), fresh.length);
      }
    }
    if (Boolean.TRUE.equals(batch.get("reseal"))) {
      CRC32C crc = new CRC32C();
      crc.update(data, 20, data.length - 20);
      ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).putInt(16, (int) crc.getValue());
    }
    return data;
  }

  private static long number(Map<?, ?> map, String name) {
    return map.get(name) == null ? 0 : (Long) map.get(name);
  }

  private static ProducerRecord record(Map<?, ?> fields) {
    ProducerRecord record = ProducerRecord.of(bytes(fields.get("payload")));
    record.key = fields.get("key") == null ? null : bytes(fields.get("key"));
    if (fields.get("headers") instanceof List<?> headers) {
      headers.forEach(each -> record.header((String) ((List<?>) each).get(0), bytes(((List<?>) each).get(1))));
    }
    record.idempotencyKey = fields.get("idempotency_key") == null ? new byte[0] : bytes(fields.get("idempotency_key"));
    record.timestampMs = number(fields, "timestamp_ms");
    record.priority = (int) number(fields, "priority");
    record.contentType = (int) number(fields, "content_type");
    record.deliverAtMs = number(fields, "deliver_at_ms");
    record.ttlMs = number(fields, "ttl_ms");
    record.maxDeliveries = (int) number(fields, "max_deliveries");
    return record;
  }

  /** A batch that was fetched, as a file could hold it. It is not compressed. */
  static Map<String, Object> decode(byte[] data, Map<String, byte[]> sent) {
    Map<String, Object> found = new LinkedHashMap<>();
    ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    found.put("base_offset", in.getLong(0));
    found.put("count", (long) in.getInt(24));
    found.put("records", new Columns(in).records());
    found.put("same_as", sent.entrySet().stream()
        .filter(each -> Arrays.equals(each.getValue(), 12, each.getValue().length, data, 12, data.length))
        .map(Map.Entry::getKey).findFirst().orElse(null));
    return found;
  }

  /** The columns of a batch, in their order. */
  private static final class Columns {
    private final ByteBuffer in;
    private final int count;
    private final int bits;
    private int at = 96;

    Columns(ByteBuffer in) {
      this.in = in;
      this.count = in.getInt(24);
      this.bits = in.getShort(64) & 0xFFFF;
    }

    private boolean has(int bit) {
      return (bits & 1 << bit) != 0;
    }

    private int column(int size) {
      int start = at + 7 & ~7;
      at = start + size;
      return start;
    }

    private int[] offsets(int items) {
      int start = column(4 * (items + 1));
      int[] found = new int[items + 1];
      for (int i = 0; i <= items; i++) {
        found[i] = in.getInt(start + 4 * i);
      }
      return found;
    }

    private byte[] slice(int start, int[] offsets, int i) {
      return Arrays.copyOfRange(in.array(), start + offsets[i], start + offsets[i + 1]);
    }

    List<Map<String, Object>> records() {
      int[] payloads = offsets(count);
      int times = has(0) ? column(8 * count) : -1;
      int ttls = has(1) ? column(8 * count) : -1;
      int[] keys = has(2) ? offsets(count) : null;
      int validity = has(3) ? column((count + 7) / 8) : -1;
      int[] idempotency = has(4) ? offsets(count) : null;
      int[] headers = has(5) ? offsets(count) : new int[count + 1];
      int[] names = has(5) ? offsets(headers[count]) : null;
      int[] values = has(5) ? offsets(headers[count]) : null;
      int deliveries = has(6) ? column(2 * count) : -1;
      int types = has(7) ? column(count) : -1;
      int keysAt = keys == null ? 0 : column(keys[count]);
      int idempotencyAt = idempotency == null ? 0 : column(idempotency[count]);
      int namesAt = names == null ? 0 : column(names[headers[count]]);
      int valuesAt = values == null ? 0 : column(values[headers[count]]);
      int payloadsAt = column(payloads[count]);
      List<Map<String, Object>> found = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        Map<String, Object> record = new LinkedHashMap<>();
        boolean hasKey = keys != null && (validity < 0 || (in.get(validity + i / 8) >> i % 8 & 1) == 1);
        List<Object> pairs = new ArrayList<>();
        for (int pair = headers[i]; pair < headers[i + 1]; pair++) {
          String name = new String(slice(namesAt, names, pair), StandardCharsets.UTF_8);
          pairs.add(List.of(name, slice(valuesAt, values, pair)));
        }
        record.put("payload", slice(payloadsAt, payloads, i));
        record.put("key", hasKey ? slice(keysAt, keys, i) : null);
        record.put("headers", pairs);
        record.put("timestamp_ms", in.getLong(times < 0 ? 32 : times + 8 * i));
        record.put("priority", (long) in.get(66));
        record.put("content_type", (long) (in.get(types < 0 ? 67 : types + i) & 0xFF));
        record.put("deliver_at_ms", in.getLong(72));
        record.put("ttl_ms", in.getLong(ttls < 0 ? 80 : ttls + 8 * i));
        record.put("idempotency_key", idempotency == null ? new byte[0] : slice(idempotencyAt, idempotency, i));
        record.put("max_deliveries", (long) (in.getShort(deliveries < 0 ? 88 : deliveries + 2 * i) & 0xFFFF));
        found.add(record);
      }
      return found;
    }
  }
}
