package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files with secrets and certificates; log-ins are in conformance/sdk/security.json. */
class SecretsTest {
  @TempDir private Path folder;

  @Test
  void aSecretIsTheFirstLineOfAFileOfItsOwner() throws Exception {
    Path file = Files.writeString(folder.resolve("secret"), "a.b.c\nmore\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    assertEquals("Bearer a.b.c", Credentials.tokenFile(file).authorization());
    assertEquals("Basic YW5uOmEuYi5j", Credentials.passwordFile("ann", file).authorization());
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
    refused(Credentials.tokenFile(file));
    refused(Credentials.tokenFile(folder.resolve("missing")));
  }

  private static void refused(Credentials credentials) {
    FlotillaException error = assertThrows(FlotillaException.class, credentials::authorization);
    assertEquals(ErrorCode.UNAUTHENTICATED, error.code());
  }

  @Test
  void certificatesThatAreMissingAreNamed() {
    ClientOptions options = new ClientOptions().tls(Tls.ca(folder.resolve("missing.crt")));
    FlotillaException error = assertThrows(FlotillaException.class, () -> new Client("127.0.0.1:7650", options));
    assertEquals(ErrorCode.INVALID_ARGUMENT, error.code());
  }
}
