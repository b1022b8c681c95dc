package io.flotilla.client;

/**
 * Where a record is stored: a majority of replicas has it on disk.
 *
 * @param topic its topic
 * @param partition its partition
 * @param offset its offset
 * @param duplicate a record with this idempotency key was stored there before; this one was not stored
 * @param topicId the id of the topic: one that is created again under its name has another
 */
public record Receipt(String topic, int partition, long offset, boolean duplicate, long topicId) {}
