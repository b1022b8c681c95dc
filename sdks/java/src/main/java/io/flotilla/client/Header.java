package io.flotilla.client;

import java.nio.charset.StandardCharsets;

/**
 * A header of a record or message. A name may occur more than once.
 *
 * @param name its name
 * @param value its value, not copied
 */
public record Header(String name, byte[] value) {
  /** A header with text, written as UTF-8. */
  public static Header of(String name, String value) {
    return new Header(name, value.getBytes(StandardCharsets.UTF_8));
  }

  /** The value as UTF-8 text. */
  public String text() {
    return new String(value, StandardCharsets.UTF_8);
  }
}
