package io.flotilla.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Base64;
import java.util.function.Function;

/**
 * Who a client is, for brokers that ask: the value of the metadata {@code authorization}, asked for with every call.
 *
 * <p>A secret never appears in a text of the client.
 */
@FunctionalInterface
public interface Credentials {
  /** {@code Basic} with user and password, or {@code Bearer} with a token. */
  String authorization();

  /** A user and its password. */
  static Credentials password(String user, String password) {
    String encoded = Base64.getEncoder().encodeToString((user + ":" + password).getBytes(StandardCharsets.UTF_8));
    return () -> "Basic " + encoded;
  }

  /** A bearer token (JWT), which names its user. */
  static Credentials token(String token) {
    return () -> "Bearer " + token;
  }

  /** A user whose password is the first line of a file of its owner only; a changed file counts within a second. */
  static Credentials passwordFile(String user, Path file) {
    return firstLine(file, password -> password(user, password).authorization());
  }

  /** A bearer token in the first line of a file of its owner only; a changed file counts within a second. */
  static Credentials tokenFile(Path file) {
    return firstLine(file, token -> "Bearer " + token);
  }

  private static Credentials firstLine(Path file, Function<String, String> authorization) {
    return new Credentials() {
      private String last;
      private long readAgainAt;

      @Override
      public synchronized String authorization() {
        long now = System.nanoTime();
        if (last == null || now - readAgainAt >= 0) {
          try {
            checkOwner(file);
            String text = Files.readString(file);
            last = authorization.apply(text.lines().findFirst().orElse("").strip());
          } catch (IOException error) {
            throw new FlotillaException(ErrorCode.UNAUTHENTICATED, "cannot read " + file + ": " + error.getMessage());
          }
          readAgainAt = now + 1_000_000_000L;
        }
        return last;
      }
    };
  }

  private static void checkOwner(Path file) throws IOException {
    PosixFileAttributeView view = Files.getFileAttributeView(file, PosixFileAttributeView.class);
    // Group and others come after the owner in the text: rw-------.
    if (view != null && !PosixFilePermissions.toString(view.readAttributes().permissions()).endsWith("------")) {
      throw new FlotillaException(ErrorCode.UNAUTHENTICATED,
          "the secret " + file + " can be read by others than its owner: chmod 600 " + file);
    }
  }
}
