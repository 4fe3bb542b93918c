package io.github.rousehq.rouse.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeoutException;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;

/** An HTTP server on a port of its own that keeps the callbacks that it gets. It needs the module {@code jdk.httpserver}. */
public final class Receiver implements AutoCloseable {
    /**
     * A callback that a receiver has got.
     *
     * @param method of the request
     * @param path of the request, with its query
     * @param headers of the request; the case of names does not matter
     * @param body of the request
     */
    public record Callback(String method, String path, Map<String, List<String>> headers, byte[] body) {
        /**
         * Returns the text of the body.
         *
         * @return the body, read as UTF-8
         */
        public String text() {
            return new String(body, StandardCharsets.UTF_8);
        }
    }

    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Callback> callbacks = new ArrayList<>(); // guarded by this
    private volatile int status = 200;

    private Receiver(HttpServer server) {
        this.server = server;
    }

    /**
     * Starts a receiver.
     *
     * @return a receiver that answers 200
     */
    public static Receiver start() {
        try {
            Receiver receiver = new Receiver(HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0));
            receiver.server.createContext("/", receiver::receive);
            receiver.server.setExecutor(receiver.threads);
            receiver.server.start();
            return receiver;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void receive(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readAllBytes();
            Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            headers.putAll(exchange.getRequestHeaders());
            // The answer is sent first: who waits for the callback may then look at its record.
            exchange.sendResponseHeaders(status, -1);
            exchange.close();
            synchronized (this) {
                callbacks.add(new Callback(exchange.getRequestMethod(), exchange.getRequestURI().toString(), Collections.unmodifiableMap(headers), body));
                notifyAll();
            }
        }
    }

    /**
     * Sets what it answers.
     *
     * @param status of HTTP
     */
    public void answer(int status) {
        this.status = status;
    }

    /**
     * Returns the target of timers.
     *
     * @return a URL
     */
    public String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort() + "/";
    }

    /**
     * Waits until there are so many callbacks, for up to 30 seconds.
     *
     * @param count how many
     * @return all that have come
     * @throws TimeoutException if there are less
     * @throws InterruptedException if the thread is interrupted
     */
    public List<Callback> await(int count) throws TimeoutException, InterruptedException {
        return await(count, Duration.ofSeconds(30));
    }

    /**
     * Waits until there are so many callbacks.
     *
     * @param count how many
     * @param timeout for how long
     * @return all that have come
     * @throws TimeoutException if there are less
     * @throws InterruptedException if the thread is interrupted
     */
    public synchronized List<Callback> await(int count, Duration timeout) throws TimeoutException, InterruptedException {
        long end = System.nanoTime() + timeout.toNanos();
        while (callbacks.size() < count) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                throw new TimeoutException(callbacks.size() + " callbacks have come in " + timeout.toMillis() + " ms, not " + count);
            }
            wait(left / 1_000_000 + 1);
        }
        return List.copyOf(callbacks);
    }

    /** Stops the receiver. */
    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
