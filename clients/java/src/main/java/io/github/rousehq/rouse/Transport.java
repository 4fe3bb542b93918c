package io.github.rousehq.rouse;

import java.io.IOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import javax.net.ssl.SSLHandshakeException;

import org.jspecify.annotations.Nullable;

/** How requests are sent: to which node, for how long, and when again. */
final class Transport {
    // Waits between two tries: each is up to twice the one before.
    private static final Duration FIRST = Duration.ofMillis(50);
    private static final Duration LONGEST = Duration.ofSeconds(5);

    /** The answer to a request. */
    record Reply(String url, int status, HttpHeaders headers, byte[] body) {
        static final Reply GONE = new Reply("", 0, HttpHeaders.of(Map.of(), (a, b) -> true), new byte[0]);

        String text() {
            return new String(body, StandardCharsets.UTF_8);
        }

        String header(String name) {
            return headers.firstValue(name).orElse("");
        }

        /** Reports whether this grants a request as the server does. A redirect or a page is of something in between. */
        boolean documented() {
            String kind = header("Content-Type").split(";", 2)[0].trim().toLowerCase(Locale.ROOT);
            boolean ofServer = kind.equals("application/json") || kind.equals("application/x-ndjson") || headers.firstValue("Rouse-Call-Id").isPresent();
            return status == 204 || status >= 200 && status < 300 && ofServer;
        }
    }

    final List<String> bases;
    private final Settings settings;
    private final Connections connections;
    private final AtomicInteger node = new AtomicInteger(); // of bases: the one that answered last

    Transport(Settings settings) {
        this(settings.bases(), settings, new Connections(settings));
    }

    private Transport(List<String> bases, Settings settings, Connections connections) {
        this.bases = bases;
        this.settings = settings;
        this.connections = connections;
    }

    /** Returns a transport that sends requests to one node, over the same connections. */
    Transport at(String base) {
        return new Transport(List.of(base), settings, connections);
    }

    void close() {
        connections.close();
    }

    /** Makes a call. It is retried for as long as the patience lasts. */
    CompletableFuture<Reply> send(Call call) {
        Run run = new Run(call);
        run.next();
        return run.result;
    }

    /** The connections of a client and of those that share them. */
    private static final class Connections {
        private volatile @Nullable HttpClient http;

        Connections(Settings settings) {
            // Polls take a connection each, so that HTTP/1.1 does. Redirects would lead elsewhere, and proxies are not for this server.
            HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER)
                .proxy(HttpClient.Builder.NO_PROXY).connectTimeout(settings.timeout());
            if (settings.tls() != null) {
                builder.sslContext(settings.tls());
            }
            http = builder.build();
        }

        HttpClient open() {
            HttpClient client = http;
            if (client == null) {
                throw new IllegalStateException("the client is closed");
            }
            return client;
        }

        /** Since Java 21 a client can be closed; before, it ends when nothing refers to it. */
        void close() {
            HttpClient client = http;
            http = null;
            if (client instanceof AutoCloseable closeable) {
                try {
                    closeable.close();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    /** A failed try: refused means that it certainly changed nothing, passes that another one may succeed. */
    private record Failure(RouseException error, boolean refused, boolean passes) {}

    /** The tries of a call. */
    private final class Run {
        final Calls.Linked<Reply> result = new Calls.Linked<>();
        private final Call call;
        private final long end = System.nanoTime() + settings.patience().toNanos();
        private Duration delay = FIRST;
        private boolean unsure; // an earlier try may have reached the server

        Run(Call call) {
            this.call = call;
        }

        void next() {
            if (result.isDone()) {
                return; // cancelled
            }
            String base = bases.get(Math.floorMod(node.get(), bases.size()));
            try {
                CompletableFuture<Reply> request = request(base, call);
                result.behind(request);
                request.whenComplete((reply, failure) -> {
                    try {
                        ended(base, reply, failure);
                    } catch (Throwable thrown) { // it must not be lost
                        result.completeExceptionally(thrown);
                    }
                });
            } catch (RuntimeException thrown) { // the client is closed
                result.completeExceptionally(thrown);
            }
        }

        private void ended(String base, @Nullable Reply reply, @Nullable Throwable thrown) {
            if (reply != null && reply.documented()) {
                result.complete(reply);
                return;
            }
            Failure failure = reply != null ? refusal(reply) : failure(base, Calls.cause(thrown));
            boolean gone = (call.deletes || call.settles) && failure.error instanceof NotFoundException || call.settles && failure.error instanceof ConflictException;
            if (unsure && gone) {
                result.complete(Reply.GONE);
                return;
            }
            if (!failure.refused || failure.error instanceof ConnectionFailedException) {
                node.incrementAndGet(); // another node may be better
            }
            unsure |= !failure.refused;
            Duration pause = delay.multipliedBy(ThreadLocalRandom.current().nextInt(500, 1000)).dividedBy(1000);
            if (failure.error instanceof ApiException refused && refused.retryAfter() != null && refused.retryAfter().compareTo(pause) > 0) {
                pause = refused.retryAfter();
            }
            if (!failure.passes || !(call.repeat || failure.refused) || System.nanoTime() + pause.toNanos() - end > 0) {
                result.completeExceptionally(failure.error);
                return;
            }
            delay = delay.multipliedBy(2).compareTo(LONGEST) < 0 ? delay.multipliedBy(2) : LONGEST;
            result.behind(Clock.after(pause, this::next));
        }
    }

    private static Failure refusal(Reply reply) {
        Duration retryAfter = Wire.retryAfter(reply.headers.firstValue("Retry-After"), reply.headers.firstValue("Date"), Instant.now());
        ApiException error = Wire.problem(reply, retryAfter);
        boolean refused = reply.status == 429; // before anything was done
        boolean away = (reply.status == 502 || reply.status == 503 || reply.status == 504) && error.code().equals("unavailable");
        return new Failure(error, refused, refused || away || error.code().equals("closed"));
    }

    private static Failure failure(String base, Throwable failure) {
        if (failure instanceof ConnectionFailedException late) {
            return new Failure(late, false, true);
        }
        boolean untrusted = failure instanceof SSLHandshakeException && caused(failure, CertificateException.class); // the certificate of the server
        boolean refused = failure instanceof ConnectException || failure instanceof HttpConnectTimeoutException || failure instanceof NoRouteToHostException
            || failure instanceof SSLHandshakeException;
        if (!(failure instanceof IOException)) { // a mistake of this client, or of its caller
            throw failure instanceof RuntimeException mistake ? mistake : new IllegalStateException(failure);
        }
        String why = failure.getMessage() != null ? failure.getMessage() : failure.toString();
        String text = refused ? base + " cannot be reached: " + why : "the connection to " + base + " failed: " + why;
        return new Failure(new ConnectionFailedException(text, !refused, failure), refused, !untrusted);
    }

    private static boolean caused(@Nullable Throwable failure, Class<? extends Throwable> kind) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (kind.isInstance(cause)) {
                return true;
            }
        }
        return false;
    }

    /** Makes one request, and reads the answer for as long as parts of it come in time. */
    private CompletableFuture<Reply> request(String base, Call call) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(base + call.path));
        call.headers.forEach(builder::setHeader);
        if (settings.key() != null) {
            builder.setHeader("Authorization", "Bearer " + settings.key());
        }
        builder.method(call.method, call.body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofByteArray(call.body));
        Duration timeout = settings.timeout().plus(call.waits);
        Watch watch = new Watch(timeout);
        CompletableFuture<HttpResponse<byte[]>> sent = connections.open().sendAsync(builder.build(), answer -> watch.reading(BodySubscribers.ofByteArray()));
        watch.over(sent);
        Calls.Linked<Reply> out = new Calls.Linked<>();
        out.behind(sent);
        sent.whenComplete((answer, failure) -> {
            watch.end();
            if (watch.expired) {
                out.completeExceptionally(new ConnectionFailedException(base + " sent no answer in " + timeout.toMillis() + " ms", true, null));
            } else if (failure != null) {
                out.completeExceptionally(Calls.cause(failure));
            } else {
                out.complete(new Reply(base + call.path, answer.statusCode(), answer.headers(), answer.body()));
            }
        });
        return out;
    }

    /** Ends a request whose answer, or whose next part, does not come in time. */
    private static final class Watch {
        private final long timeout;
        private volatile long last = System.nanoTime(); // when something came
        private volatile boolean expired;
        private volatile boolean ended;
        private volatile @Nullable ScheduledFuture<?> check;

        Watch(Duration timeout) {
            this.timeout = timeout.toNanos();
        }

        void over(CompletableFuture<?> request) {
            long left = last + timeout - System.nanoTime();
            if (left <= 0) {
                expired = true;
                request.cancel(true);
                return;
            }
            check = Clock.TIMERS.schedule(() -> over(request), left, TimeUnit.NANOSECONDS);
            if (ended) {
                end();
            }
        }

        void end() {
            ended = true;
            ScheduledFuture<?> last = check;
            if (last != null) {
                last.cancel(false);
            }
        }

        /** Returns a subscriber that notes when parts of the body come. */
        BodySubscriber<byte[]> reading(BodySubscriber<byte[]> body) {
            last = System.nanoTime();
            return new BodySubscriber<>() {
                @Override
                public CompletionStage<byte[]> getBody() {
                    return body.getBody();
                }

                @Override
                public void onSubscribe(Flow.Subscription subscription) {
                    body.onSubscribe(subscription);
                }

                @Override
                public void onNext(List<ByteBuffer> parts) {
                    last = System.nanoTime();
                    body.onNext(parts);
                }

                @Override
                public void onError(Throwable failure) {
                    body.onError(failure);
                }

                @Override
                public void onComplete() {
                    body.onComplete();
                }
            };
        }
    }

    /** Timers of this process. */
    static final class Clock {
        static final ScheduledThreadPoolExecutor TIMERS = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "rouse-timers");
            thread.setDaemon(true);
            return thread;
        });

        static {
            TIMERS.setRemoveOnCancelPolicy(true); // or timeouts of calls that have ended would be kept
        }

        private Clock() {}

        /** Runs a task after a while, unless the future is cancelled before. The task does not run in the thread of the timers. */
        static CompletableFuture<Void> after(Duration pause, Runnable task) {
            CompletableFuture<Void> over = new CompletableFuture<>();
            ScheduledFuture<?> timer = TIMERS.schedule(() -> over.complete(null), pause.toNanos(), TimeUnit.NANOSECONDS);
            over.whenComplete((result, failure) -> timer.cancel(false));
            over.thenRunAsync(task);
            return over;
        }
    }
}
