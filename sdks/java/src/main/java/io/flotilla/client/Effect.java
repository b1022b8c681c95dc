package io.flotilla.client;

/** What a repetition of a call does, which decides when the client may repeat it. */
enum Effect {
  /** Nothing changes: it is repeated after any error that passes. */
  READ,
  /** The same as doing it once: repeated as well, but without an answer it may be done. */
  REPEATABLE,
  /** It would be done again: repeated only while it is certainly not done. */
  ONCE
}
