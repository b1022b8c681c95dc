package io.flotilla.client;

import java.time.Instant;

/** Where a new group begins, or where a reader reads from. A group that exists goes on where it was. */
public final class Start {
  final io.flotilla.v1.Start.Place place;
  final long value;

  private Start(io.flotilla.v1.Start.Place place, long value) {
    this.place = place;
    this.value = value;
  }

  /** At the oldest record. */
  public static Start earliest() {
    return new Start(io.flotilla.v1.Start.Place.EARLIEST, 0);
  }

  /** After the newest record. */
  public static Start latest() {
    return new Start(io.flotilla.v1.Start.Place.LATEST, 0);
  }

  /** At this offset of every partition. */
  public static Start offset(long offset) {
    return new Start(io.flotilla.v1.Start.Place.OFFSET, ProducerRecord.least(0, offset, "an offset"));
  }

  /** At the first record of this time or later. */
  public static Start time(Instant time) {
    return new Start(io.flotilla.v1.Start.Place.TIME, ProducerRecord.least(0, time.toEpochMilli(), "a time"));
  }

  io.flotilla.v1.Start message() {
    return io.flotilla.v1.Start.newBuilder().setPlace(place).setValue(value).build();
  }

  /** What ListOffsets is asked for; not for an offset. */
  long timestampMs() {
    return switch (place) {
      case EARLIEST -> -2;
      case LATEST -> -1;
      default -> value;
    };
  }
}
