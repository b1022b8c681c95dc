package io.flotilla.client;

import com.google.protobuf.ByteString;
import io.flotilla.v1.AlterGroupRequest;
import io.flotilla.v1.CancelMessagesRequest;
import io.flotilla.v1.DeleteGroupRequest;
import io.flotilla.v1.DescribeGroupReply;
import io.flotilla.v1.DescribeGroupRequest;
import io.flotilla.v1.ExplainMessageReply;
import io.flotilla.v1.ExplainMessageRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.ListGroupsRequest;
import io.flotilla.v1.ListStreamGroupsRequest;
import io.flotilla.v1.ResetGroupRequest;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** The groups of a topic, and single messages in them, for the methods of {@link Client}. */
final class Groups {
  private final Client client;
  private final String topic;

  Groups(Client client, String topic) {
    this.client = client;
    this.topic = topic;
  }

  Map<String, String> names() {
    ListGroupsRequest request = ListGroupsRequest.newBuilder().setTopic(topic).build();
    Map<String, String> found = new TreeMap<>(
        client.calls().call(FlotillaGrpc.getListGroupsMethod(), request, Effect.READ, client.timeoutMs())
            .getGroupsMap());
    ListStreamGroupsRequest streams = ListStreamGroupsRequest.newBuilder().setTopic(topic).build();
    client.calls().call(FlotillaGrpc.getListStreamGroupsMethod(), streams, Effect.READ, client.timeoutMs())
        .getGroupsList().forEach(name -> found.put(name, "stream"));
    return found;
  }

  GroupInfo describe(String group) {
    DescribeGroupRequest request = DescribeGroupRequest.newBuilder().setTopic(topic).setGroup(group).build();
    DescribeGroupReply found =
        client.calls().call(FlotillaGrpc.getDescribeGroupMethod(), request, Effect.READ, client.timeoutMs());
    return GroupInfo.of(found);
  }

  Map<String, String> alter(String group, Map<String, String> settings) {
    AlterGroupRequest request =
        AlterGroupRequest.newBuilder().setTopic(topic).setGroup(group).putAllSettings(settings).build();
    return client.calls()
        .call(FlotillaGrpc.getAlterGroupMethod(), request, Effect.REPEATABLE, client.timeoutMs())
        .getSettingsMap();
  }

  Map<Integer, GroupReset> reset(String group, Start start, boolean dryRun) {
    ResetGroupRequest request =
        ResetGroupRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setStart(start.message())
            .setDryRun(dryRun)
            .build();
    return client.calls()
        .call(FlotillaGrpc.getResetGroupMethod(), request, Effect.ONCE, client.timeoutMs())
        .getPartitionsMap().entrySet().stream()
        .collect(Collectors.toMap(
            Map.Entry::getKey, move -> new GroupReset(move.getValue().getFromOffset(), move.getValue().getToOffset())));
  }

  void delete(String group, boolean force) {
    DeleteGroupRequest request =
        DeleteGroupRequest.newBuilder().setTopic(topic).setGroup(group).setForce(force).build();
    client.calls().call(FlotillaGrpc.getDeleteGroupMethod(), request, Effect.ONCE, client.timeoutMs());
  }

  boolean cancel(int partition, long offset) {
    CancelMessagesRequest request =
        CancelMessagesRequest.newBuilder().setTopic(topic).setPartition(partition).addOffsets(offset).build();
    return cancel(request) > 0;
  }

  int cancel(String idempotencyKey) {
    ByteString key = ByteString.copyFromUtf8(idempotencyKey);
    return cancel(CancelMessagesRequest.newBuilder().setTopic(topic).addIdempotencyKeys(key).build());
  }

  private int cancel(CancelMessagesRequest request) {
    return client.calls()
        .call(FlotillaGrpc.getCancelMessagesMethod(), request, Effect.REPEATABLE, client.timeoutMs())
        .getCancelledCount();
  }

  Explanation explain(String group, int partition, long offset) {
    ExplainMessageRequest request =
        ExplainMessageRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setPartition(partition)
            .setOffset(offset)
            .build();
    ExplainMessageReply found =
        client.calls().call(FlotillaGrpc.getExplainMessageMethod(), request, Effect.READ, client.timeoutMs());
    return new Explanation(
        found.getState(), found.getAttempts(), found.getReason(), found.getHolder(), found.getRemainingMs(),
        List.copyOf(found.getHistoryList()), found.getNext());
  }
}
