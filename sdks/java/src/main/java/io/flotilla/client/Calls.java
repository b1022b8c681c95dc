package io.flotilla.client;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The unary calls of a client, each over any number of attempts.
 *
 * <p>Errors that pass are retried by the error table until the deadline, at the next address if a node did not answer.
 * Every call carries the newest metadata index that the client has seen, so that any node answers with what other
 * nodes have acknowledged.
 */
final class Calls {
  private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
  private static final Metadata.Key<String> INDEX = key("flotilla-metadata-index");
  private static final Metadata.Key<String> ERROR = key("flotilla-error");
  private static final Metadata.Key<String> RETRY_AFTER = key("flotilla-retry-after-ms");
  /** Beyond its wait, before another node is asked. */
  private static final long ATTEMPT_MS = 15_000;
  private static final long BACKOFF_FIRST_MS = 20;
  private static final long BACKOFF_MOST_MS = 500;
  /** A node that lags behind may not know a new topic or user. The error is believed at this attempt. */
  private static final int NOT_KNOWN_ATTEMPTS_MAX = 5;

  private final Channels channels;
  private final Credentials credentials;
  private final ScheduledExecutorService timers;
  private final AtomicLong metadataIndex = new AtomicLong();
  private volatile boolean isClosed;

  Calls(Channels channels, Credentials credentials, ScheduledExecutorService timers) {
    this.channels = channels;
    this.credentials = credentials;
    this.timers = timers;
  }

  Channels channels() {
    return channels;
  }

  ScheduledExecutorService timers() {
    return timers;
  }

  /** Starts a call that waits for nothing at the broker. */
  <Q, R> CompletableFuture<R> start(MethodDescriptor<Q, R> method, Q request, Effect effect, long timeoutMs) {
    return start(method, request, effect, timeoutMs, 0);
  }

  /** Starts a call; {@code waitMs} is how long the broker may wait before it answers. */
  <Q, R> CompletableFuture<R> start(
      MethodDescriptor<Q, R> method, Q request, Effect effect, long timeoutMs, long waitMs) {
    Call<Q, R> call = new Call<>(method, request, effect, timeoutMs, waitMs);
    call.attempt();
    return call.result;
  }

  /** The same, and waits for the answer. */
  <Q, R> R call(MethodDescriptor<Q, R> method, Q request, Effect effect, long timeoutMs) {
    return wait(start(method, request, effect, timeoutMs));
  }

  /** Waits for an answer. Throws its error; an interrupt cancels the call, which may be done. */
  static <R> R wait(CompletableFuture<R> future) {
    try {
      return future.get();
    } catch (InterruptedException interrupted) {
      future.cancel(true);
      Thread.currentThread().interrupt();
      throw new FlotillaException(ErrorCode.OUTCOME_UNKNOWN, "interrupted; it may or may not have happened");
    } catch (ExecutionException error) {
      throw errorOf(error).here();
    }
  }

  /** The FlotillaException inside the exceptions of futures. */
  static FlotillaException errorOf(Throwable error) {
    Throwable found = error;
    while (found != null && !(found instanceof FlotillaException)) {
      found = found.getCause();
    }
    if (found != null) {
      return (FlotillaException) found;
    }
    return new FlotillaException(ErrorCode.UNKNOWN, String.valueOf(error.getMessage()), 0, error);
  }

  void close() {
    isClosed = true;
    channels.close();
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /** One call; an attempt begins when the one before has ended. */
  private final class Call<Q, R> {
    private final MethodDescriptor<Q, R> method;
    private final Q request;
    private final Effect effect;
    private final long deadlineNs;
    private final long waitMs;
    private final CompletableFuture<R> result = new CompletableFuture<>();
    private int attempts;
    /** An attempt may have been carried out. */
    private boolean isUnsure;
    private FlotillaException lastError;
    private volatile ClientCall<Q, R> inFlight;

    Call(MethodDescriptor<Q, R> method, Q request, Effect effect, long timeoutMs, long waitMs) {
      this.method = method;
      this.request = request;
      this.effect = effect;
      this.deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs + waitMs);
      this.waitMs = waitMs;
      result.whenComplete((reply, error) -> {
        ClientCall<Q, R> call = inFlight;
        if (result.isCancelled() && call != null) {
          call.cancel("cancelled by the caller", null);
        }
      });
    }

    void attempt() {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
      if (result.isDone()) {
        return;
      }
      if (isClosed) {
        fail(FlotillaException.closed("the client"));
        return;
      }
      if (leftMs <= 0) {
        fail(overdue());
        return;
      }
      Metadata headers = new Metadata();
      try {
        if (credentials != null) {
          headers.put(AUTHORIZATION, credentials.authorization());
        }
      } catch (RuntimeException error) {
        fail(errorOf(error));
        return;
      }
      if (metadataIndex.get() > 0) {
        headers.put(INDEX, String.valueOf(metadataIndex.get()));
      }
      Sent sent = new Sent();
      CallOptions options =
          CallOptions.DEFAULT
              .withDeadlineAfter(Math.min(leftMs, waitMs + ATTEMPT_MS), TimeUnit.MILLISECONDS)
              .withStreamTracerFactory(sent);
      Channels.Link link = channels.current();
      ClientCall<Q, R> call = (waitMs > 0 ? link.longPolls() : link.calls()).newCall(method, options);
      inFlight = call;
      call.start(new Answer(link, sent), headers);
      call.request(2);
      call.sendMessage(request);
      call.halfClose();
      if (result.isCancelled()) {
        call.cancel("cancelled by the caller", null);
      }
    }

    private void answered(Channels.Link link, boolean wasSent, Status status, Metadata trailers) {
      FlotillaException error = errorOf(status, trailers);
      boolean isFromBroker = trailers.containsKey(ERROR);
      if (!isFromBroker || error.code() == ErrorCode.UNAVAILABLE) {
        channels.failed(link);
      }
      attempts++;
      lastError = error;
      boolean isOpen = error.code() == ErrorCode.OUTCOME_UNKNOWN || error.code() == ErrorCode.STORAGE_FAILED
          || error.code() == ErrorCode.UNKNOWN;
      if (effect != Effect.READ && (isFromBroker ? isOpen : wasSent)) {
        isUnsure = true;
      }
      if (effect == Effect.ONCE && isUnsure || !isPassing(error)) {
        fail(error);
        return;
      }
      long wholeMs = Math.min(BACKOFF_FIRST_MS << Math.min(attempts - 1, 10), BACKOFF_MOST_MS);
      long delayMs = Math.max(ThreadLocalRandom.current().nextLong(wholeMs / 2, wholeMs + 1), error.retryAfterMs());
      if (System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(delayMs) - deadlineNs >= 0) {
        fail(overdue());
        return;
      }
      try {
        timers.schedule(this::attempt, delayMs, TimeUnit.MILLISECONDS);
      } catch (RejectedExecutionException closed) {
        fail(FlotillaException.closed("the client"));
      }
    }

    private boolean isPassing(FlotillaException error) {
      if (isClosed) {
        return false;
      }
      if (error.code() == ErrorCode.NOT_FOUND || error.code() == ErrorCode.UNAUTHENTICATED) {
        return effect != Effect.READ && attempts < NOT_KNOWN_ATTEMPTS_MAX;
      }
      // After growth the caller has to count the partitions anew.
      return error.isRetryable() && error.code() != ErrorCode.TOPIC_GROWN;
    }

    private void fail(FlotillaException error) {
      boolean mayBeDone = isUnsure && error.code() != ErrorCode.OUTCOME_UNKNOWN;
      String text = "it may or may not have happened; " + error.code() + ": " + error.getMessage();
      result.completeExceptionally(
          mayBeDone ? new FlotillaException(ErrorCode.OUTCOME_UNKNOWN, text, 0, error) : error);
    }

    private FlotillaException overdue() {
      String last = lastError == null ? "no answer came" : "the last attempt ended with " + lastError.code() + ": "
          + lastError.getMessage();
      return new FlotillaException(ErrorCode.DEADLINE, "not done in time; " + last, 0, lastError);
    }

    private final class Answer extends ClientCall.Listener<R> {
      private final Channels.Link link;
      private final Sent sent;
      private R reply;

      Answer(Channels.Link link, Sent sent) {
        this.link = link;
        this.sent = sent;
      }

      @Override
      public void onMessage(R message) {
        reply = message;
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        String index = trailers.get(INDEX);
        if (index != null && index.matches("[0-9]{1,18}")) {
          metadataIndex.accumulateAndGet(Long.parseLong(index), Math::max);
        }
        if (status.isOk() && reply != null) {
          result.complete(reply);
        } else if (!result.isDone()) {
          answered(link, sent.isSent, status, trailers);
        }
      }
    }
  }

  private static FlotillaException errorOf(Status status, Metadata trailers) {
    String text = status.getDescription() == null ? status.getCode().name() : status.getDescription();
    String name = trailers.get(ERROR);
    if (name != null) {
      String after = trailers.get(RETRY_AFTER);
      long afterMs = after != null && after.matches("[0-9]{1,9}") ? Long.parseLong(after) : 0;
      return new FlotillaException(ErrorCode.named(name), text, afterMs, null);
    }
    ErrorCode code =
        switch (status.getCode()) {
          case UNAVAILABLE, CANCELLED -> ErrorCode.UNAVAILABLE;
          case DEADLINE_EXCEEDED -> ErrorCode.DEADLINE;
          // A message beyond the limit of either side never gets through; too many calls at a node pass.
          case RESOURCE_EXHAUSTED -> text.contains("larger than max") || text.contains("exceeds maximum size")
              ? ErrorCode.INVALID_ARGUMENT : ErrorCode.OVERLOADED;
          case UNIMPLEMENTED -> ErrorCode.UNSUPPORTED;
          case UNAUTHENTICATED -> ErrorCode.UNAUTHENTICATED;
          case PERMISSION_DENIED -> ErrorCode.PERMISSION_DENIED;
          // Netty's word for a connection that ended before the call was written.
          case UNKNOWN -> status.getCause() instanceof IOException ? ErrorCode.UNAVAILABLE : ErrorCode.UNKNOWN;
          default -> ErrorCode.UNKNOWN;
        };
    return new FlotillaException(code, text, 0, status.getCause());
  }

  /** Notes whether a call has left this process: before that it is certainly not done. */
  private static final class Sent extends ClientStreamTracer.Factory {
    private volatile boolean isSent;

    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
      return new ClientStreamTracer() {
        @Override
        public void outboundHeaders() {
          isSent = true;
        }
      };
    }
  }
}
