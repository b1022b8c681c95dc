package io.flotilla.client;

import java.util.Iterator;
import java.util.List;

/** Messages without an end, for a loop: what readers and stream consumers have in common. */
abstract class PolledMessages implements Iterable<Message> {
  volatile boolean isClosed;

  /** Up to so many messages; waits up to {@code waitMs} for the first one. Empty: there was none. */
  public abstract List<Message> poll(int maxMessages, long waitMs);

  /** The next message, however long that takes. */
  public Message next() {
    while (true) {
      List<Message> found = poll(1, 60_000);
      if (!found.isEmpty()) {
        return found.get(0);
      }
    }
  }

  /** Messages without an end, as {@link #next}. */
  @Override
  public Iterator<Message> iterator() {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return !isClosed;
      }

      @Override
      public Message next() {
        return PolledMessages.this.next();
      }
    };
  }
}
