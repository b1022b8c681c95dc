package io.flotilla.client;

import com.google.protobuf.ByteString;
import io.flotilla.v1.ScheduleDefinition;
import java.time.Instant;

/**
 * A recurring message that the cluster produces by itself, each once.
 *
 * <p>The setters change this schedule and return it.
 */
public final class Schedule {
  final ScheduleDefinition.Builder definition;
  boolean isUpdate;

  private Schedule(String topic) {
    this.definition = ScheduleDefinition.newBuilder().setTopic(topic);
  }

  /** At every time that the expression names: five fields, as {@code 0 3 * * *}, or six with the seconds first. */
  public static Schedule cron(String topic, String cron) {
    Schedule made = new Schedule(topic);
    made.definition.setCron(cron);
    return made;
  }

  /** At an interval from a second on. */
  public static Schedule everyMs(String topic, long everyMs) {
    Schedule made = new Schedule(topic);
    made.definition.setEveryMs(ProducerRecord.least(1, everyMs, "everyMs"));
    return made;
  }

  /** Payload, key, headers, priority and content type of its messages. Other fields of a record are refused. */
  public Schedule record(ProducerRecord record) {
    if (record.deliverAtMs > 0 || record.delayMs > 0 || record.ttlMs > 0 || record.idempotencyKey.length > 0
        || record.partition >= 0 || record.maxDeliveries > 0 || record.timestampMs > 0) {
      throw FlotillaException.invalid("a schedule has payload, key, headers, priority and content type only");
    }
    if (record.key != null && record.key.length == 0) {
      throw FlotillaException.invalid("the key of a schedule is not empty");
    }
    definition.setPayload(ByteString.copyFrom(record.payload)).setPriority(record.priority)
        .setContentType(record.contentType).clearHeaders();
    definition.setKey(record.key == null ? ByteString.EMPTY : ByteString.copyFrom(record.key));
    record.headers.forEach(header -> definition.addHeaders(
        io.flotilla.v1.Header.newBuilder()
            .setName(header.name())
            .setValue(ByteString.copyFrom(header.value()))));
    return this;
  }

  /** The IANA name of the zone in which the expression is meant; by default UTC. */
  public Schedule timeZone(String timeZone) {
    definition.setTimeZone(timeZone);
    return this;
  }

  /** The first occurrence of an interval; by default one interval from now. */
  public Schedule startAt(Instant time) {
    definition.setStartMs(time.toEpochMilli());
    return this;
  }

  /** What becomes of occurrences that could not be produced in time: skip, one (the default) or all. */
  public Schedule missed(String missed, int missedMax) {
    definition.setMissed(missed).setMissedMax(missedMax);
    return this;
  }

  /** A schedule of that name gets this definition; one that has it stays as it is. */
  public Schedule update() {
    this.isUpdate = true;
    return this;
  }
}
