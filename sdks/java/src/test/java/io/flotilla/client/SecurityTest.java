package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** A node with TLS and log-in. */
class SecurityTest {
  private static Path folder;
  private static Path password;
  private static Node node;

  @BeforeAll
  static void serve() throws Exception {
    folder = Node.folder();
    String authority = file("");
    Node.run("cert", "init", "--cluster", "shop", "--folder", authority);
    Node.run("cert", "issue", "--node", "1", "--host", "127.0.0.1", "--folder", authority);
    node = new Node(folder, "--cluster-name", "shop", "--authentication", "--tls-client-certificates", "optional",
        "--tls-certificate", file("node1.crt"), "--tls-key", file("node1.key"), "--tls-ca", file("ca.crt"));
    password = Files.writeString(folder.resolve("password"), "correct horse\n");
    Files.setPosixFilePermissions(password, PosixFilePermissions.fromString("rw-------"));
    asNode("topic", "create", "orders");
    asNode("user", "create", "ann", "--password-file", password.toString());
    asNode("acl", "grant", "ann", "produce", "orders");
  }

  @AfterAll
  static void stop() {
    if (node != null) {
      node.close();
    }
  }

  private static String file(String name) {
    return folder.resolve("certificates").resolve(name).toString();
  }

  private static Tls trusting() {
    return Tls.ca(Path.of(file("ca.crt")));
  }

  private static Client client(Tls tls, Credentials credentials) {
    return new Client(node.address(), new ClientOptions().tls(tls).credentials(credentials).timeoutMs(20_000));
  }

  /** A verb of the command line with the rights of a node. */
  private static void asNode(String... arguments) throws Exception {
    List<String> all = new ArrayList<>(List.of(
        "--tls-ca", file("ca.crt"), "--tls-certificate", file("node1.crt"), "--tls-key", file("node1.key")));
    all.addAll(List.of(arguments));
    all.addAll(List.of("--servers", node.nativeAddress()));
    Node.run(all.toArray(String[]::new));
  }

  @Test
  void aPasswordNamesTheUser() {
    try (Client client = client(trusting(), Credentials.passwordFile("ann", password))) {
      assertEquals("orders", client.produce("orders", "x").topic());
      FlotillaException refused = assertThrows(FlotillaException.class, () -> client.peek("orders", 0, 0, 1));
      assertEquals(ErrorCode.PERMISSION_DENIED, refused.code());
    }
  }

  @Test
  void aWrongPasswordTokenOrNoneIsRefused() {
    for (Credentials wrong : List.of(Credentials.password("ann", "wrong"), Credentials.token("x.y.z"))) {
      try (Client client = client(trusting(), wrong); Client nobody = client(trusting(), null)) {
        assertEquals(
            ErrorCode.UNAUTHENTICATED, assertThrows(FlotillaException.class, nobody::topics).code());
        FlotillaException refused = assertThrows(FlotillaException.class, () -> client.describeTopic("orders"));
        assertEquals(ErrorCode.UNAUTHENTICATED, refused.code());
      }
    }
  }

  @Test
  void aStrangersCertificateIsNotTrusted() {
    ClientOptions options = new ClientOptions().tls(new Tls(null, null, null, null)).timeoutMs(1_000);
    try (Client client = new Client(node.address(), options)) {
      assertEquals(ErrorCode.DEADLINE, assertThrows(FlotillaException.class, client::topics).code());
    }
  }

  @Test
  void filesThatAreMissingAreNamed() {
    FlotillaException error =
        assertThrows(FlotillaException.class, () -> client(Tls.ca(folder.resolve("missing.crt")), null));
    assertEquals(ErrorCode.INVALID_ARGUMENT, error.code());
  }
}
