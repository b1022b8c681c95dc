package io.flotilla.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.flotilla.v1.FlotillaGrpc;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * The operations of scenarios as calls of the gRPC contract, and replies as values again.
 *
 * <p>Fields have the same names on both sides, except those that this class translates.
 */
final class ConformanceOperations {
  private static final long ACK = 1;
  private static final long BY_BACKOFF = -1;

  /** Operations that the contract offers, and the name of the call. All others are made by nodes and operators. */
  private static final Map<String, String> CALLS = new HashMap<>(Map.of(
      "get_metadata", "Describe", "trim_partition", "TrimTopic", "cancel_records", "CancelMessages",
      "stage_settlement", "StageAck", "settle", "Ack", "pause_schedule", "PauseSchedule"));

  static {
    for (String name : List.of("produce", "fetch", "list_offsets", "commit_offset", "read_offset", "create_topic",
        "alter_topic", "delete_topic", "transfer_leadership", "poll", "read_results", "extend", "leave_queue",
        "list_groups", "describe_group", "reset_group", "delete_group", "alter_group", "explain_message", "join_group",
        "heartbeat", "leave_group", "claim_partition", "describe_stream_group", "list_stream_groups", "stage",
        "commit_transaction", "abort_transaction", "transaction_outcome", "create_schedule", "run_schedule",
        "delete_schedule", "list_schedules")) {
      StringBuilder call = new StringBuilder();
      for (String part : name.split("_")) {
        call.append(Character.toUpperCase(part.charAt(0))).append(part.substring(1));
      }
      CALLS.put(name, call.toString());
    }
  }

  /** Fields of requests and replies that the contract names in another way. */
  private static final Map<String, String> REQUEST_NAMES = Map.of(
      "is_forced", "force", "is_optional", "is_optional", "keys", "idempotency_keys");
  private static final Map<String, String> REPLY_NAMES = Map.of(
      "paused", "is_paused", "alive", "is_alive", "shown", "is_shown", "repeated_version", "is_repeated",
      "resume_offset", "reached");
  private static final List<String> OF_PARTITIONS =
      List.of("list_groups", "describe_group", "reset_group", "delete_group");
  /** Release, fail and reject. */
  private static final Map<Long, Long> KINDS = Map.of(2L, 1L, 3L, 0L, 4L, 2L);
  private static final Map<Long, String> PLACES = Map.of(-2L, "EARLIEST", -1L, "LATEST", 1L, "OFFSET", 2L, "TIME");

  private final Channel channel;
  private final Map<String, byte[]> sent;

  ConformanceOperations(Channel channel, Map<String, byte[]> sent) {
    this.channel = channel;
    this.sent = sent;
  }

  static boolean offers(String operation) {
    return CALLS.containsKey(operation);
  }

  /** The reply as a map. Throws FlotillaException with the code of the trailing metadata. */
  Map<String, Object> call(String operation, Map<String, Object> given) {
    Map<String, Object> with = new LinkedHashMap<>(given);
    String name = CALLS.get(operation);
    if (operation.equals("settle") && !with.remove("kind").equals(ACK)) {
      name = "Nack";
      with.put("kind", given.get("kind"));
    }
    if (operation.equals("pause_schedule") && Boolean.FALSE.equals(with.remove("is_paused"))) {
      name = "ResumeSchedule";
    }
    try {
      return reply(operation, given, ask(name, prepare(operation, with)));
    } catch (StatusRuntimeException failure) {
      FlotillaException error = error(failure);
      if (error.code() == ErrorCode.LEASE_EXPIRED && (operation.equals("settle") || operation.equals("extend"))) {
        return Map.of("expired", given.get("leases"));
      }
      throw error;
    }
  }

  private static FlotillaException error(StatusRuntimeException failure) {
    Metadata trailers = failure.getTrailers();
    String name = trailers == null ? null : trailers.get(key("flotilla-error"));
    if (name == null) {
      throw failure;
    }
    ErrorCode code = ErrorCode.valueOf(name);
    String retryable = trailers.get(key("flotilla-retryable"));
    String number = trailers.get(key("flotilla-code"));
    if (!String.valueOf(code.isRetryable()).equals(retryable) || !String.valueOf(code.number()).equals(number)) {
      throw new IllegalStateException(name + " is " + number + ", retryable: " + retryable);
    }
    return new FlotillaException(code, String.valueOf(failure.getStatus().getDescription()));
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /** The fields of a request in the words of the contract. */
  private static Map<String, Object> prepare(String operation, Map<String, Object> with) {
    Object partition = with.get("partition");
    if (OF_PARTITIONS.contains(operation)) {
      with.put("partitions", List.of(with.remove("partition")));
    } else if (operation.equals("trim_partition")) {
      with.put("offsets", Map.of(with.remove("partition"), with.remove("offset")));
    } else if (operation.equals("leave_queue") || operation.equals("settle") || operation.equals("extend")) {
      with.remove("partition");
    } else if (operation.equals("fetch") || operation.equals("poll")) {
      with.put("batches", true);
    }
    if (with.remove("leases") instanceof List<?> leases) {
      with.put("held", leases.stream().map(each -> held(partition, (List<?>) each)).toList());
    }
    if (with.get("results") instanceof List<?> results) {
      with.put("results", results.stream().map(each -> Map.of(
          "partition", partition, "offset", ((List<?>) each).get(0), "payload", ((List<?>) each).get(1))).toList());
    }
    if (with.get("start") instanceof List<?> start) {
      long value = start.size() > 1 ? Math.max((Long) start.get(1), 0) : 0;
      with.put("start", Map.of("place", PLACES.get((Long) start.get(0)), "value", value));
    }
    if (with.get("headers") instanceof List<?> headers) {
      with.put("headers", headers.stream()
          .map(each -> Map.of("name", ((List<?>) each).get(0), "value", ((List<?>) each).get(1))).toList());
    }
    if (operation.endsWith("_transaction") && with.get("partitions") instanceof List<?> places) {
      with.put("partitions", places.stream()
          .map(each -> Map.of("topic", ((List<?>) each).get(0), "partition", ((List<?>) each).get(1))).toList());
    }
    if (Long.valueOf(BY_BACKOFF).equals(with.get("delay_ms"))) {
      with.remove("delay_ms");
    }
    if (operation.equals("settle") && with.get("kind") instanceof Long kind) {
      with.put("kind", KINDS.getOrDefault(kind, kind));
    }
    return with;
  }

  private static Map<String, Object> held(Object partition, List<?> lease) {
    return Map.of("partition", partition, "lease_id", lease.get(0), "first", lease.get(1),
        "count", (Long) lease.get(2) - (Long) lease.get(1));
  }

  private Message ask(String name, Map<String, Object> with) {
    for (MethodDescriptor<?, ?> method : FlotillaGrpc.getServiceDescriptor().getMethods()) {
      if (method.getBareMethodName().equals(name)) {
        return ask(method, with);
      }
    }
    throw new IllegalArgumentException("there is no call " + name);
  }

  @SuppressWarnings("unchecked")
  private <Q, R> Message ask(MethodDescriptor<Q, R> method, Map<String, Object> with) {
    var marshaller = (MethodDescriptor.PrototypeMarshaller<Q>) method.getRequestMarshaller();
    Q request = (Q) message(((Message) marshaller.getMessagePrototype()).newBuilderForType(), with);
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(60, TimeUnit.SECONDS);
    return (Message) ClientCalls.blockingUnaryCall(channel, method, options, request);
  }

  private static Message message(Message.Builder builder, Map<?, ?> with) {
    with.forEach((key, value) -> {
      String plain = REQUEST_NAMES.getOrDefault((String) key, ((String) key).replaceFirst("^is_", ""));
      FieldDescriptor field = builder.getDescriptorForType().findFieldByName(plain);
      if (field == null) {
        throw new IllegalArgumentException(builder.getDescriptorForType().getName() + " has no " + plain);
      }
      if (field.isMapField()) {
        ((Map<?, ?>) value).forEach((each, item) -> {
          FieldDescriptor left = field.getMessageType().findFieldByName("key");
          FieldDescriptor right = field.getMessageType().findFieldByName("value");
          Message.Builder entry = builder.newBuilderForField(field);
          entry.setField(left, scalar(left, each)).setField(right, scalar(right, item));
          builder.addRepeatedField(field, entry.build());
        });
      } else if (field.isRepeated()) {
        ((List<?>) value).forEach(item -> builder.addRepeatedField(field, single(builder, field, item)));
      } else {
        builder.setField(field, single(builder, field, value));
      }
    });
    return builder.build();
  }

  private static Object single(Message.Builder builder, FieldDescriptor field, Object value) {
    return field.getJavaType() == FieldDescriptor.JavaType.MESSAGE
        ? message(builder.newBuilderForField(field), (Map<?, ?>) value)
        : scalar(field, value);
  }

  private static Object scalar(FieldDescriptor field, Object value) {
    return switch (field.getJavaType()) {
      case INT -> ((Long) value).intValue();
      case BYTE_STRING -> ByteString.copyFrom(value instanceof byte[] data ? data : ConformanceValues.bytes(value));
      case STRING -> value instanceof Map<?, ?> ? new String(ConformanceValues.bytes(value)) : value;
      case ENUM -> enumValue(field.getEnumType(), value);
      default -> value;
    };
  }

  private static Object enumValue(EnumDescriptor type, Object value) {
    return value instanceof String name
        ? type.findValueByName(name)
        : type.findValueByNumberCreatingIfUnknown(((Long) value).intValue());
  }

  // Replies.

  private Map<String, Object> reply(String operation, Map<String, Object> given, Message answer) {
    Map<String, Object> found = plain(answer);
    String partition = String.valueOf(given.get("partition"));
    return switch (operation) {
      case "produce" -> produced(found);
      case "create_topic", "alter_topic", "delete_topic" -> Map.of("topic", found);
      case "fetch" -> with(found, "batches", each(found.get("batches"), this::batch));
      case "poll" -> with(found, "deliveries", each(found.get("deliveries"), this::delivery));
      case "settle", "extend" -> Map.of("expired", each(found.get("expired_held"), ConformanceOperations::range));
      case "describe_group", "reset_group" -> map(map(found.get("partitions")).get(partition));
      case "trim_partition" -> Map.of("log_start", map(found.get("log_starts")).get(partition));
      case "cancel_records" -> Map.of("offsets", each(found.get("cancelled"), each -> map(each).get("offset")));
      case "join_group", "heartbeat" -> with(found, "partitions",
          each(found.get("partitions"), each -> List.of(map(each).get("partition"), map(each).get("epoch"))));
      default -> found;
    };
  }

  private static Map<String, Object> produced(Map<String, Object> found) {
    List<?> positions = (List<?>) found.get("known_positions");
    if (!positions.isEmpty()) {
      List<Object> known = new ArrayList<>();
      for (int i = 0; i < positions.size(); i++) {
        known.add(List.of(positions.get(i), ((List<?>) found.get("known_offsets")).get(i)));
      }
      return Map.of("base_offset", 0L, "known", known);
    }
    Map<String, Object> receipt = map(((List<?>) found.get("receipts")).get(0));
    return Map.of("base_offset", receipt.get("offset"), "duplicate", receipt.get("duplicate"), "known", List.of());
  }

  private Object batch(Object data) {
    return ConformanceValues.decode((byte[]) data, sent);
  }

  private Object delivery(Object each) {
    Map<String, Object> found = new LinkedHashMap<>(map(each));
    found.putAll(ConformanceValues.decode((byte[]) found.remove("batch"), sent));
    return found;
  }

  private static Object range(Object each) {
    Map<String, Object> held = map(each);
    return List.of(held.get("lease_id"), held.get("first"), (Long) held.get("first") + (Long) held.get("count"));
  }

  private static Map<String, Object> with(Map<String, Object> found, String name, Object value) {
    Map<String, Object> changed = new LinkedHashMap<>(found);
    changed.put(name, value);
    return changed;
  }

  private static List<Object> each(Object items, Function<Object, Object> change) {
    List<Object> found = new ArrayList<>();
    ((List<?>) items).forEach(item -> found.add(change.apply(item)));
    return found;
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> map(Object value) {
    return (Map<String, Object>) value;
  }

  private static Map<String, Object> plain(Message message) {
    Map<String, Object> found = new LinkedHashMap<>();
    for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
      Object value = message.getField(field);
      String name = REPLY_NAMES.getOrDefault(field.getName(), field.getName());
      if (field.isMapField()) {
        Map<String, Object> entries = new LinkedHashMap<>();
        ((List<?>) value).forEach(each -> {
          Map<String, Object> entry = plain((Message) each);
          entries.put(String.valueOf(entry.get("key")), entry.get("value"));
        });
        found.put(name, entries);
      } else if (field.isRepeated()) {
        found.put(name, each(value, item -> plain(field, item)));
      } else {
        found.put(name, field.hasPresence() && !message.hasField(field) ? null : plain(field, value));
      }
    }
    return found;
  }

  private static Object plain(FieldDescriptor field, Object value) {
    return switch (field.getJavaType()) {
      case MESSAGE -> plain((Message) value);
      case INT -> Integer.toUnsignedLong((Integer) value);
      case BYTE_STRING -> ((ByteString) value).toByteArray();
      default -> value;
    };
  }
}
