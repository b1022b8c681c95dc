package io.flotilla.client;

import java.util.List;

/**
 * Where a message is for a group, why, and what comes next.
 *
 * @param state a name of docs/reference/delivery-states.md
 * @param attempts how often it was delivered
 * @param reason of the last failure
 * @param holder the member that has leased it
 * @param remainingMs until the state changes by itself
 * @param history every step in the log, for people
 * @param next what comes next, for people
 */
public record Explanation(
    String state, int attempts, String reason, String holder, long remainingMs, List<String> history, String next) {}
