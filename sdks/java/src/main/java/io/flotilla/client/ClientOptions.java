package io.flotilla.client;

/** Options of a client. The setters change these options and return them. */
public final class ClientOptions {
  long timeoutMs = 30_000;
  String name = "flotilla-java";
  Tls tls;
  Credentials credentials;

  /** Every call ends within this time, unless it says otherwise; 30 s. */
  public ClientOptions timeoutMs(long timeoutMs) {
    this.timeoutMs = ProducerRecord.least(1, timeoutMs, "timeoutMs");
    return this;
  }

  /** Shown to operators: members of groups have it in their names. */
  public ClientOptions name(String name) {
    this.name = name;
    return this;
  }

  /** Encrypts connections. */
  public ClientOptions tls(Tls tls) {
    this.tls = tls;
    return this;
  }

  /** Says who the client is, where brokers ask. */
  public ClientOptions credentials(Credentials credentials) {
    this.credentials = credentials;
    return this;
  }
}
