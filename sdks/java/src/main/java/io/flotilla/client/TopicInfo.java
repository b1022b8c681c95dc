package io.flotilla.client;

import io.flotilla.v1.Topic;
import java.util.List;
import java.util.Map;

/**
 * A topic.
 *
 * @param name its name
 * @param topicId its id: a topic that is created again under the name has another
 * @param partitions its partitions in order
 * @param settings all settings in force
 * @param keyPartitions keys are spread over the partitions below this number
 */
public record TopicInfo(
    String name, long topicId, List<Partition> partitions, Map<String, String> settings, int keyPartitions) {

  /**
   * A partition.
   *
   * @param number its number
   * @param leader the node that leads it; 0: none is known
   * @param replicas the nodes that have a replica
   * @param term the term of its leader
   */
  public record Partition(int number, int leader, List<Integer> replicas, long term) {}

  static TopicInfo of(Topic topic) {
    List<Partition> partitions = topic.getPartitionsList().stream()
        .map(each -> new Partition(each.getNumber(), each.getLeader(), each.getReplicasList(), each.getTerm()))
        .toList();
    return new TopicInfo(
        topic.getName(), topic.getTopicId(), partitions, topic.getSettingsMap(), topic.getKeyPartitions());
  }

  /** The partition of a record: the chosen one, that of its key, or the one for records without a key. */
  int partitionOf(ProducerRecord record, int unkeyed) {
    if (record.partition >= partitions.size()) {
      throw FlotillaException.invalid(
          "there is no partition " + record.partition + " of " + name + ", only " + partitions.size() + " of them");
    }
    if (record.partition >= 0) {
      return record.partition;
    }
    return record.key == null
        ? Integer.remainderUnsigned(unkeyed, partitions.size())
        : BatchEncoder.partitionOf(record.key, keySpread());
  }

  /** Over how many partitions keys are spread. */
  int keySpread() {
    return keyPartitions > 0 ? keyPartitions : partitions.size();
  }
}
