package io.flotilla.client;

/** A partition that has staged records of a transaction. */
public record Participant(String topic, int partition) {
  io.flotilla.v1.TopicPartition message() {
    return io.flotilla.v1.TopicPartition.newBuilder().setTopic(topic).setPartition(partition).build();
  }
}
