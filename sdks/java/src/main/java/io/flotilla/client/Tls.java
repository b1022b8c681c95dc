package io.flotilla.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.nio.file.Path;

/**
 * How connections are encrypted: the certificate authority of the cluster, and a certificate of the client if the
 * cluster asks for one.
 *
 * <p>Files are read when the client is made.
 *
 * @param caFile certificates that the client trusts, as PEM; null: those of the JVM
 * @param certificateFile the client's certificate as PEM, or null
 * @param keyFile the private key of that certificate as PEM (PKCS #8), or null
 * @param serverName the name that the brokers' certificates must have; null: the host of the address
 */
public record Tls(Path caFile, Path certificateFile, Path keyFile, String serverName) {
  /** Throws INVALID_ARGUMENT for a certificate without its key. */
  public Tls {
    if ((certificateFile == null) != (keyFile == null)) {
      throw FlotillaException.invalid("a certificate and its key are given together");
    }
  }

  /** Encrypted connections to brokers whose certificates this authority has signed. */
  public static Tls ca(Path caFile) {
    return new Tls(caFile, null, null, null);
  }

  /** The same with a certificate of the client, which names its user. */
  public Tls certificate(Path certificateFile, Path keyFile) {
    return new Tls(caFile, certificateFile, keyFile, serverName);
  }

  /** The same with another name in the brokers' certificates than the host of the address. */
  public Tls serverName(String serverName) {
    return new Tls(caFile, certificateFile, keyFile, serverName);
  }

  ChannelCredentials credentials() {
    TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
    try {
      if (caFile != null) {
        builder.trustManager(caFile.toFile());
      }
      if (certificateFile != null) {
        builder.keyManager(certificateFile.toFile(), keyFile.toFile());
      }
    } catch (IOException error) {
      throw FlotillaException.invalid("a file of tls cannot be read: " + error.getMessage());
    }
    return builder.build();
  }
}
