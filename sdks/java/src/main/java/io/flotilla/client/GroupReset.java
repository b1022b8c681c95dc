package io.flotilla.client;

/**
 * How a reset moves a group in a partition.
 *
 * @param fromOffset the old position
 * @param toOffset the new one
 */
public record GroupReset(long fromOffset, long toOffset) {}
