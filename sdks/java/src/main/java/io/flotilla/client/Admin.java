package io.flotilla.client;

import io.flotilla.v1.Cluster;
import io.flotilla.v1.DescribeRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.TransferLeadershipRequest;
import java.util.List;

/** The cluster: its nodes, topics and leaders; made by {@link Client#admin}. */
public final class Admin {
  private final Client client;

  Admin(Client client) {
    this.client = client;
  }

  /**
   * A broker.
   *
   * @param node its number
   * @param client host:port of its native protocol
   * @param http host:port of HTTP; empty: off
   * @param grpc host:port of gRPC; empty: off
   * @param alive whether the cluster hears of it
   * @param state active, draining or leaving
   */
  public record Broker(int node, String client, String http, String grpc, boolean alive, String state) {}

  /**
   * The cluster as one node knows it.
   *
   * @param clusterId drawn when the cluster was founded
   * @param clusterName its name
   * @param controller the node that leads the metadata
   * @param brokers all brokers
   * @param topics the topics that were asked for
   * @param isStale no quorum of the metadata confirmed it in time: recent changes may be missing
   */
  public record Metadata(
      String clusterId, String clusterName, int controller, List<Broker> brokers, List<TopicInfo> topics,
      boolean isStale) {}

  /** The brokers, and the named topics (all if none is named). Unknown topics are left out. */
  public Metadata metadata(String... topics) {
    DescribeRequest request = DescribeRequest.newBuilder().addAllTopics(List.of(topics)).build();
    Cluster found = client.calls().call(FlotillaGrpc.getDescribeMethod(), request, Effect.READ, client.timeoutMs());
    List<Broker> brokers = found.getBrokersList().stream()
        .map(each -> new Broker(
            each.getNode(), each.getClient(), each.getHttp(), each.getGrpc(), each.getAlive(), each.getState()))
        .toList();
    return new Metadata(
        found.getClusterId(), found.getClusterName(), found.getController(), brokers,
        found.getTopicsList().stream().map(TopicInfo::of).toList(), found.getIsStale());
  }

  /** Has another replica lead a partition: the named one, or any (0). */
  public void transferLeadership(String topic, int partition, int to) {
    TransferLeadershipRequest request =
        TransferLeadershipRequest.newBuilder().setTopic(topic).setPartition(partition).setTo(to).build();
    client.calls().call(FlotillaGrpc.getTransferLeadershipMethod(), request, Effect.ONCE, client.timeoutMs());
  }
}
