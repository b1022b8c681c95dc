package io.flotilla.client;

import io.flotilla.v1.DeadLettersDone;
import io.flotilla.v1.DeadLettersRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.grpc.MethodDescriptor;
import java.util.List;

/**
 * The dead letters of one group of one topic, to be listed, redriven or purged; made by {@link Client#deadLetters}.
 *
 * <p>The setters choose some of them and return this object; all conditions must match.
 */
public final class DeadLetters {
  private final Client client;
  private final DeadLettersRequest.Builder wanted;

  DeadLetters(Client client, String topic, String group) {
    this.client = client;
    this.wanted = DeadLettersRequest.newBuilder().setTopic(topic).setGroup(group);
  }

  /**
   * The counts of a redrive or a purge, and of a dry run.
   *
   * @param done redriven, or purged
   * @param refused redriven too often before
   * @param skipped not matched
   */
  public record Redriven(int done, int refused, int skipped) {}

  /** At most this many; by default 100 to list, else 1,000. */
  public DeadLetters limit(int limit) {
    wanted.setLimit(ProducerRecord.least(1, limit, "limit"));
    return this;
  }

  /** Only those with this text in their reason. */
  public DeadLetters reason(String part) {
    wanted.setReason(part);
    return this;
  }

  /** Only those that died at or after this time, in milliseconds since 1970. */
  public DeadLetters sinceMs(long sinceMs) {
    wanted.setSinceMs(sinceMs);
    return this;
  }

  /** Only those that died before this time. */
  public DeadLetters untilMs(long untilMs) {
    wanted.setUntilMs(untilMs);
    return this;
  }

  /** {@link #redrive} and {@link #purge} change nothing, and return the same counts. */
  public DeadLetters dryRun() {
    wanted.setDryRun(true);
    return this;
  }

  /** Also those that were redriven three times already. */
  public DeadLetters force() {
    wanted.setForce(true);
    return this;
  }

  /** The oldest of them that are neither redriven nor purged. */
  public List<DeadLetter> list() {
    return client.calls()
        .call(FlotillaGrpc.getListDeadLettersMethod(), wanted.build(), Effect.READ, client.timeoutMs())
        .getDeadLettersList().stream().map(DeadLetter::of).toList();
  }

  /** Sends them to their topic again, with all their fields. One is sent once, however often this is repeated. */
  public Redriven redrive() {
    return change(FlotillaGrpc.getRedriveDeadLettersMethod());
  }

  /** Discards them: they are not listed again. */
  public Redriven purge() {
    return change(FlotillaGrpc.getPurgeDeadLettersMethod());
  }

  private Redriven change(MethodDescriptor<DeadLettersRequest, DeadLettersDone> method) {
    DeadLettersDone done = client.calls().call(method, wanted.build(), Effect.ONCE, client.timeoutMs());
    return new Redriven(done.getDone(), done.getRefused(), done.getSkipped());
  }
}
