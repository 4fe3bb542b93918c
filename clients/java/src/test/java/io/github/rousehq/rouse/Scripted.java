package io.github.rousehq.rouse;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;

/** A server that answers as a test wants. */
final class Scripted implements AutoCloseable {
    /** Answers a request; if it does not, the connection is cut. */
    interface Answer {
        void to(HttpExchange exchange, String body) throws Exception;
    }

    /** A request that came. */
    record Sent(String method, String path, String key, String body, String match) {}

    final List<Sent> sent = new CopyOnWriteArrayList<>();
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    /** Begins to answer requests one after another, the last answer again and again. */
    Scripted(Answer... answers) {
        try {
            server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            try (exchange) {
                String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
                int n;
                synchronized (sent) {
                    n = sent.size();
                    sent.add(new Sent(exchange.getRequestMethod(), exchange.getRequestURI().toString(), String.valueOf(exchange.getRequestHeaders().getFirst("Idempotency-Key")), body,
                        String.valueOf(exchange.getRequestHeaders().getFirst("If-Match"))));
                }
                answers[Math.min(n, answers.length - 1)].to(exchange, body);
            } catch (Exception e) {
                throw new IOException(e);
            }
        });
        server.start();
    }

    String address() {
        return "127.0.0.1:" + server.getAddress().getPort();
    }

    /** Returns the methods of the requests. */
    List<String> methods() {
        return new ArrayList<>(sent.stream().map(Sent::method).toList());
    }

    static Answer json(String body) {
        return reply(200, "application/json", body);
    }

    static Answer reply(int status, String type, String body, String... headers) {
        return (exchange, request) -> {
            byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", type);
            for (int i = 0; i < headers.length; i += 2) {
                exchange.getResponseHeaders().set(headers[i], headers[i + 1]);
            }
            exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
            exchange.getResponseBody().write(bytes);
        };
    }

    static Answer problem(int status, String code, String... headers) {
        return reply(status, "application/problem+json", "{\"type\":\"about:blank\",\"title\":\"No\",\"status\":" + status + ",\"code\":\"" + code + "\"}", headers);
    }

    /** Cuts the connection. */
    static Answer cut() {
        return (exchange, body) -> {};
    }

    /** Waits until something holds. */
    static void until(String what, BooleanSupplier holds) throws InterruptedException {
        for (long end = System.nanoTime() + 120_000_000_000L; !holds.getAsBoolean(); Thread.sleep(2)) {
            if (System.nanoTime() - end > 0) {
                throw new AssertionError("it never came to be that " + what);
            }
        }
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
