package io.flotilla.client;

import io.grpc.ChannelCredentials;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Connections to the given addresses. One address is used until it fails, then the next.
 *
 * <p>A node accepts 64 calls at a time on a connection, and a long poll counts until it is answered. So long polls have
 * a connection of their own, and never hold up other calls.
 */
final class Channels {
  private static final int PORT_DEFAULT = 7650;
  /** One poll returns up to 8 MiB, or one larger message. */
  private static final int ANSWER_BYTES_MAX = 24 << 20;

  /** The connections to one address. */
  record Link(int number, ManagedChannel calls, ManagedChannel longPolls) {}

  private final List<Link> links = new ArrayList<>();
  private final AtomicInteger current = new AtomicInteger();
  /** Called whenever a connection has ended, on a thread of gRPC. */
  private final Set<Runnable> watchers = new CopyOnWriteArraySet<>();

  Channels(String addresses, Tls tls, String name) {
    ChannelCredentials credentials = tls == null ? InsecureChannelCredentials.create() : tls.credentials();
    for (String address : addresses.split(",")) {
      String[] parts = split(address.strip());
      links.add(new Link(links.size(), open(parts, credentials, tls, name), open(parts, credentials, tls, name)));
    }
  }

  private ManagedChannel open(String[] parts, ChannelCredentials credentials, Tls tls, String name) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilderForAddress(parts[0], Integer.parseInt(parts[1]), credentials)
            .maxInboundMessageSize(ANSWER_BYTES_MAX)
            .userAgent(name);
    if (tls != null && tls.serverName() != null) {
      builder.overrideAuthority(tls.serverName());
    }
    ManagedChannel channel = builder.build();
    follow(channel);
    return channel;
  }

  private void follow(ManagedChannel channel) {
    ConnectivityState before = channel.getState(false);
    channel.notifyWhenStateChanged(before, () -> {
      if (channel.isShutdown()) {
        return;
      }
      if (before == ConnectivityState.READY) {
        watchers.forEach(Runnable::run);
      }
      follow(channel);
    });
  }

  void watch(Runnable lost) {
    watchers.add(lost);
  }

  void unwatch(Runnable lost) {
    watchers.remove(lost);
  }

  private static String[] split(String address) {
    int colon = address.lastIndexOf(':');
    boolean hasPort = colon >= 0 && colon > address.lastIndexOf(']') && address.indexOf(':') == colon
        || address.startsWith("[") && colon > address.indexOf(']');
    String host = (hasPort ? address.substring(0, colon) : address).replaceAll("^\\[|\\]$", "");
    String port = hasPort ? address.substring(colon + 1) : String.valueOf(PORT_DEFAULT);
    if (host.isEmpty() || !port.matches("[0-9]{1,5}") || Integer.parseInt(port) > 65535) {
      throw FlotillaException.invalid("an address is host:port, not \"" + address + "\"");
    }
    return new String[] {host, port};
  }

  Link current() {
    return links.get(current.get());
  }

  /** The link did not answer: the next call uses another address. */
  void failed(Link link) {
    current.compareAndSet(link.number(), (link.number() + 1) % links.size());
  }

  void close() {
    for (Link link : links) {
      link.calls().shutdownNow();
      link.longPolls().shutdownNow();
    }
    for (Link link : links) {
      try {
        link.calls().awaitTermination(1, TimeUnit.SECONDS);
        link.longPolls().awaitTermination(1, TimeUnit.SECONDS);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }
}
