package io.flotilla.client;

import io.flotilla.v1.DescribeGroupReply;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;

/**
 * Progress and backlog of a queue group.
 *
 * @param partitions the partitions that know the group, by number
 */
public record GroupInfo(Map<Integer, Partition> partitions) {
  /**
   * A partition as the group sees it.
   *
   * @param floor everything below is settled
   * @param nextOffset the offset of the next record to be written
   * @param lag messages that are not settled
   * @param ready messages to be delivered now
   * @param leased messages that members hold
   * @param delayed messages that wait for their time, or for the next attempt
   * @param ackedTotal messages acknowledged so far
   * @param failedTotal failed attempts so far
   * @param deadTotal dead letters so far
   * @param paused whether the group is paused
   * @param members names of members that hold messages or poll
   */
  public record Partition(
      long floor, long nextOffset, long lag, long ready, long leased, long delayed, long ackedTotal, long failedTotal,
      long deadTotal, boolean paused, List<String> members) {}

  static GroupInfo of(DescribeGroupReply reply) {
    Map<Integer, Partition> found = new TreeMap<>();
    reply.getPartitionsMap().forEach((number, each) -> found.put(number, new Partition(
        each.getFloor(), each.getNextOffset(), each.getLag(), each.getReady(), each.getLeased(), each.getDelayed(),
        each.getAckedTotal(), each.getFailedTotal(), each.getDeadTotal(), each.getPaused(),
        each.getMembersList().stream().map(DescribeGroupReply.Member::getName).toList())));
    return new GroupInfo(found);
  }

  /** Messages of all partitions that are not settled. */
  public long lag() {
    return sum(Partition::lag);
  }

  /** Messages of all partitions to be delivered now. */
  public long ready() {
    return sum(Partition::ready);
  }

  /** Messages of all partitions that members hold. */
  public long leased() {
    return sum(Partition::leased);
  }

  /** Messages of all partitions acknowledged so far. */
  public long ackedTotal() {
    return sum(Partition::ackedTotal);
  }

  /** Dead letters of all partitions so far. */
  public long deadTotal() {
    return sum(Partition::deadTotal);
  }

  private long sum(ToLongFunction<Partition> field) {
    return partitions.values().stream().mapToLong(field).sum();
  }
}
