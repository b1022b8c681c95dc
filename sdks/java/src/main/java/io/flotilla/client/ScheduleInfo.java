package io.flotilla.client;

import java.util.List;

/**
 * A schedule.
 *
 * @param name its name
 * @param scheduleId never used again: one that is made anew under its name has another
 * @param topic the topic that it produces to
 * @param cron its expression; empty: an interval
 * @param everyMs its interval; 0: an expression
 * @param timeZone of the expression; empty: UTC
 * @param payload the payload of its messages
 * @param paused whether it is paused
 * @param runs messages produced so far
 * @param lastMs the newest occurrence; 0: none
 * @param upcomingMs the coming occurrences; none while it is paused
 * @param error why the newest attempt failed; it is repeated
 */
public record ScheduleInfo(
    String name, long scheduleId, String topic, String cron, long everyMs, String timeZone, byte[] payload,
    boolean paused, long runs, long lastMs, List<Long> upcomingMs, String error) {

  static ScheduleInfo of(io.flotilla.v1.Schedule found) {
    var definition = found.getDefinition();
    return new ScheduleInfo(
        found.getName(), found.getScheduleId(), definition.getTopic(), definition.getCron(), definition.getEveryMs(),
        definition.getTimeZone(), definition.getPayload().toByteArray(), found.getPaused(), found.getRuns(),
        found.getLastMs(), List.copyOf(found.getUpcomingMsList()), found.getError());
  }
}
