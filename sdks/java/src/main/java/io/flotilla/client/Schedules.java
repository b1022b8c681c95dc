package io.flotilla.client;

import io.flotilla.v1.CreateScheduleRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.ListSchedulesReply;
import io.flotilla.v1.ListSchedulesRequest;
import io.flotilla.v1.ScheduleReply;
import io.flotilla.v1.ScheduleRequest;
import io.grpc.MethodDescriptor;
import java.util.ArrayList;
import java.util.List;

/** Recurring messages that the cluster produces by itself; made by {@link Client#schedules}. */
public final class Schedules {
  private static final int UPCOMING = 5;

  private final Client client;

  Schedules(Client client) {
    this.client = client;
  }

  /** Creates a schedule, and its topic if the cluster allows that. Throws ALREADY_EXISTS, unless it is an update. */
  public ScheduleInfo create(String name, Schedule schedule) {
    client.findTopic(schedule.definition.getTopic(), client.timeoutMs());
    CreateScheduleRequest request =
        CreateScheduleRequest.newBuilder()
            .setName(name)
            .setDefinition(schedule.definition)
            .setUpdate(schedule.isUpdate)
            .build();
    Effect effect = schedule.isUpdate ? Effect.REPEATABLE : Effect.ONCE;
    return ScheduleInfo.of(
        client.calls().call(FlotillaGrpc.getCreateScheduleMethod(), request, effect, client.timeoutMs())
            .getSchedule());
  }

  /** All schedules by name. */
  public List<ScheduleInfo> list() {
    List<ScheduleInfo> found = new ArrayList<>();
    ListSchedulesReply page = ListSchedulesReply.getDefaultInstance();
    do {
      page = ask(ListSchedulesRequest.newBuilder().setAfter(page.getNext()).build());
      page.getSchedulesList().forEach(each -> found.add(ScheduleInfo.of(each)));
    } while (!page.getNext().isEmpty());
    return found;
  }

  /** One schedule with its next five occurrences. Throws NOT_FOUND. */
  public ScheduleInfo get(String name) {
    ListSchedulesReply found = name.isEmpty()
        ? ListSchedulesReply.getDefaultInstance()
        : ask(ListSchedulesRequest.newBuilder().setName(name).setUpcoming(UPCOMING).build());
    if (found.getSchedulesCount() == 0) {
      throw new FlotillaException(ErrorCode.NOT_FOUND, "there is no schedule " + name);
    }
    return ScheduleInfo.of(found.getSchedules(0));
  }

  /** Nothing is produced until it is resumed, and nothing of that time afterwards. */
  public ScheduleInfo pause(String name) {
    return change(FlotillaGrpc.getPauseScheduleMethod(), name, Effect.REPEATABLE);
  }

  /** Goes on with the next occurrence from now. */
  public ScheduleInfo resume(String name) {
    return change(FlotillaGrpc.getResumeScheduleMethod(), name, Effect.REPEATABLE);
  }

  /** Produces its message now, also while it is paused. Its occurrences stay as they are. */
  public ScheduleInfo run(String name) {
    return change(FlotillaGrpc.getRunScheduleMethod(), name, Effect.ONCE);
  }

  /** Removes a schedule, and returns it as it was. Its messages stay. Throws NOT_FOUND. */
  public ScheduleInfo delete(String name) {
    return change(FlotillaGrpc.getDeleteScheduleMethod(), name, Effect.ONCE);
  }

  private ListSchedulesReply ask(ListSchedulesRequest request) {
    return client.calls().call(FlotillaGrpc.getListSchedulesMethod(), request, Effect.READ, client.timeoutMs());
  }

  private ScheduleInfo change(MethodDescriptor<ScheduleRequest, ScheduleReply> method, String name, Effect effect) {
    ScheduleRequest request = ScheduleRequest.newBuilder().setName(name).build();
    return ScheduleInfo.of(client.calls().call(method, request, effect, client.timeoutMs()).getSchedule());
  }
}
