package io.github.rousehq.rouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.ServerSocket;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;

import org.junit.jupiter.api.Test;

import io.github.rousehq.rouse.model.BulkAction;
import io.github.rousehq.rouse.model.BulkProgress;
import io.github.rousehq.rouse.model.Debounce;
import io.github.rousehq.rouse.model.Filter;
import io.github.rousehq.rouse.model.Spec;
import io.github.rousehq.rouse.model.Timer;
import io.github.rousehq.rouse.model.When;

/** Requests and their retries, with a server that answers as the test wants. */
class ClientTest {
    private static final String TIMER = "{\"name\":\"a\",\"namespace\":\"default\",\"target\":\"stream:x\",\"schedule\":\"@every 1h\",\"revision\":7,\"generation\":1,\"state\":\"scheduled\",\"ended\":0}";
    private static final Scripted.Answer OK = Scripted.json(TIMER);
    private static final Spec SPEC = Spec.builder("stream:x").schedule("@after 1h").build();

    private static RouseClient client(Scripted server) {
        return RouseClient.builder().server(server.address()).build();
    }

    private static RouseClient impatient(Scripted server) {
        return RouseClient.builder().server(server.address()).patience(Duration.ZERO).build();
    }

    @Test
    void aCreateThatIsRepeatedHasOneKey() {
        try (Scripted server = new Scripted(Scripted.cut(), Scripted.problem(429, "overloaded", "Retry-After", "0"), OK); RouseClient client = client(server)) {
            assertEquals("a", client.create("a", SPEC).name());
            assertEquals(3, server.sent.size());
            assertEquals(1, new HashSet<>(server.sent).size());
            client.withIdempotencyKey("order-1").create("a", SPEC);
            assertEquals("order-1", server.sent.get(3).key());
            assertNotEquals("null", server.sent.get(0).key());
        }
        try (Scripted server = new Scripted(Scripted.problem(409, "conflict")); RouseClient client = client(server)) {
            assertThrows(ConflictException.class, () -> client.create("a", SPEC));
            assertThrows(NotFoundException.class, () -> client.upsertExisting("a", SPEC));
        }
        try (Scripted server = new Scripted(Scripted.cut(), OK); RouseClient client = client(server)) {
            Spec coalesces = Spec.builder("stream:x").debounce(Debounce.builder(Duration.ofMinutes(1)).build()).build();
            assertThrows(ConnectionFailedException.class, () -> client.create("a", coalesces));
            assertEquals("null", server.sent.get(0).key());
        }
    }

    @Test
    void whatARepetitionWouldDoTwiceHasOneKey() {
        Scripted.Answer ran = Scripted.json("{\"fire_id\":\"x\"}");
        try (Scripted server = new Scripted(Scripted.cut(), Scripted.problem(503, "unavailable"), ran, Scripted.cut(), OK, Scripted.cut(), OK); RouseClient client = client(server)) {
            assertEquals("x", client.run("a").fireId());
            client.withIdempotencyKey("mine").skip("a");
            client.reschedule("a", When.builder("@every 1h").build());
            List<String> keys = server.sent.stream().map(Scripted.Sent::key).toList();
            assertEquals(1, new HashSet<>(keys.subList(0, 3)).size());
            assertEquals(List.of("mine", "mine"), keys.subList(3, 5));
            assertEquals(keys.get(5), keys.get(6));
            assertEquals(3, new HashSet<>(keys).size());
        }
        for (Scripted.Answer fault : List.of(Scripted.cut(), Scripted.problem(503, "unavailable"))) {
            try (Scripted server = new Scripted(fault, OK); RouseClient client = client(server)) {
                RouseException failed = assertThrows(RouseException.class, () -> client.upsert("a", SPEC, 7));
                assertTrue(!(failed instanceof ConnectionFailedException lost) || lost.unsure());
                assertEquals(1, server.sent.size());
            }
            try (Scripted server = new Scripted(fault, OK); RouseClient client = client(server)) {
                assertEquals("a", client.withIdempotencyKey("mine").upsert("a", SPEC, 7).name());
            }
        }
        try (Scripted server = new Scripted(Scripted.problem(429, "quota"), OK); RouseClient client = client(server)) {
            assertEquals("a", client.upsert("a", SPEC, 7).name());
        }
        try (Scripted server = new Scripted(Scripted.cut()); RouseClient client = client(server)) {
            assertThrows(ConnectionFailedException.class, () -> client.withIdempotencyKey("mine").bulk(BulkAction.SKIP, Filter.builder().build()));
            assertEquals(List.of("mine"), server.sent.stream().map(Scripted.Sent::key).toList());
        }
    }

    @Test
    void aDeleteWhoseAnswerIsLostSucceeds() {
        try (Scripted server = new Scripted(Scripted.cut(), Scripted.problem(404, "not_found")); RouseClient client = client(server)) {
            assertTrue(client.delete("a").inFlight());
            assertThrows(NotFoundException.class, () -> client.delete("a"));
        }
    }

    @Test
    void anotherNodeIsAsked() throws Exception {
        try (Scripted server = new Scripted(OK); ServerSocket unused = new ServerSocket(0)) {
            int closed = unused.getLocalPort();
            unused.close();
            try (RouseClient client = RouseClient.builder().server("127.0.0.1:" + closed + "," + server.address()).build()) {
                assertEquals("a", client.get("a").name());
            }
            try (RouseClient client = RouseClient.builder().server("127.0.0.1:" + closed).patience(Duration.ZERO).build()) {
                assertFalse(assertThrows(ConnectionFailedException.class, () -> client.run("a")).unsure());
            }
        }
    }

    @Test
    void patienceEnds() {
        try (Scripted server = new Scripted(Scripted.problem(503, "closed", "Retry-After", "9"));
            RouseClient client = RouseClient.builder().server(server.address()).patience(Duration.ofSeconds(5)).build()) {
            assertEquals(Duration.ofSeconds(9), assertThrows(UnavailableException.class, () -> client.get("a")).retryAfter());
            assertEquals(1, server.sent.size());
        }
    }

    @Test
    void aFutureThatIsCancelledEndsItsRequest() throws Exception {
        CountDownLatch came = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        try (Scripted server = new Scripted((exchange, body) -> {
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, 0);
            came.countDown();
            try {
                for (;;) { // until the connection is closed
                    exchange.getResponseBody().write(' ');
                    exchange.getResponseBody().flush();
                    Thread.sleep(1);
                }
            } catch (java.io.IOException e) {
                closed.countDown();
            }
        }); RouseAsyncClient client = RouseAsyncClient.builder().server(server.address()).buildAsync()) {
            CompletableFuture<Timer> read = client.get("a");
            came.await();
            assertTrue(read.cancel(true));
            assertThrows(CancellationException.class, read::join);
            closed.await();
        }
        // In the pause before a retry.
        try (Scripted server = new Scripted(Scripted.problem(429, "overloaded", "Retry-After", "20")); RouseAsyncClient client = RouseAsyncClient.builder().server(server.address()).buildAsync()) {
            CompletableFuture<Timer> read = client.update("a", spec -> spec);
            Scripted.until("a request came", () -> server.sent.size() == 1);
            read.cancel(true);
            assertThrows(CancellationException.class, read::join);
        }
    }

    @Test
    void aThreadThatIsInterruptedIsFree() throws Exception {
        try (Scripted server = new Scripted(Scripted.problem(429, "overloaded", "Retry-After", "20")); RouseClient client = client(server)) {
            CompletableFuture<RouseException> failed = new CompletableFuture<>();
            Thread thread = new Thread(() -> {
                RouseException e = assertThrows(ConnectionFailedException.class, () -> client.get("a"));
                failed.complete(Thread.currentThread().isInterrupted() ? e : null);
            });
            thread.start();
            Scripted.until("a request came", () -> server.sent.size() == 1);
            thread.interrupt();
            assertInstanceOf(ConnectionFailedException.class, failed.get());
        }
    }

    @Test
    void anAnswerThatDoesNotComeInTimeIsNone() {
        CountDownLatch over = new CountDownLatch(1);
        Scripted.Answer half = (exchange, body) -> {
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, 100);
            exchange.getResponseBody().write("{".getBytes());
            exchange.getResponseBody().flush();
            over.await();
        };
        for (Scripted.Answer late : List.<Scripted.Answer>of((exchange, body) -> over.await(), half)) {
            try (Scripted server = new Scripted(late);
                RouseClient client = RouseClient.builder().server(server.address()).timeout(Duration.ofMillis(100)).patience(Duration.ZERO).build()) {
                ConnectionFailedException failed = assertThrows(ConnectionFailedException.class, () -> client.get("a"));
                assertTrue(failed.unsure() && failed.getMessage().contains("no answer in 100 ms"), failed.getMessage());
            }
        }
        over.countDown();
    }

    @Test
    void aClosedClientMakesNoCalls() {
        try (Scripted server = new Scripted(OK)) {
            RouseClient client = client(server);
            RouseClient other = client.within("n");
            client.close();
            assertThrows(IllegalStateException.class, () -> client.get("a"));
            assertThrows(IllegalStateException.class, () -> other.get("a"));
            client.close();
        }
    }

    @Test
    void anAnswerThatCannotBeReadIsAnError() {
        for (String body : List.of("", "[]", "{\"revision\":\"x\", \"name\":1}", "{\"due\":\"soon\"}", "{\"retry\":1}")) {
            try (Scripted server = new Scripted(Scripted.json(body)); RouseClient client = impatient(server)) {
                assertEquals("unexpected", assertThrows(ApiException.class, () -> client.get("a"), body).code(), body);
            }
        }
    }

    @Test
    void anUpdateIsMadeAgainIfAnotherClientCameBetween() {
        Scripted.Answer next = Scripted.json(TIMER.replace("7", "8"));
        try (Scripted server = new Scripted(OK, Scripted.problem(412, "conflict"), next, OK); RouseClient client = client(server)) {
            client.update("a", spec -> spec.toBuilder().schedule("@every 2h").build());
            assertEquals(List.of("GET", "PUT", "GET", "PUT"), server.methods());
            assertEquals("\"8\"", server.sent.get(3).match());
        }
        try (Scripted server = new Scripted(Scripted.json(TIMER.replace("}", ",\"redacted\":true}"))); RouseClient client = client(server)) {
            assertTrue(assertThrows(RouseException.class, () -> client.update("a", spec -> spec)).getMessage().contains("may not see its payload"));
            assertThrows(ArithmeticException.class, () -> {
                try (Scripted fine = new Scripted(OK); RouseClient other = client(fine)) {
                    other.update("a", spec -> {
                        throw new ArithmeticException();
                    });
                }
            });
        }
    }

    @Test
    void aBulkChangeThatIsInterruptedTellsHowFarItCame() {
        String failure = "{\"name\":\"x\",\"namespace\":\"default\",\"problem\":{\"type\":\"\",\"title\":\"\",\"status\":409,\"code\":\"conflict\"}}";
        try (Scripted server = new Scripted(Scripted.json("{\"matched\":1,\"failures\":[" + failure + "],\"names\":[\"a\"]}\n{\"matched\":2,\"changed\":1,\"names\":[\"b\"],\"done\":true}\n"),
            Scripted.json("{\"matched\":3,\"changed\":3,\"problem\":{\"type\":\"\",\"title\":\"Closed\",\"status\":503,\"code\":\"closed\"}}\n")); RouseClient client = client(server)) {
            BulkProgress done = client.bulk(BulkAction.DELETE, Filter.builder().build());
            assertEquals(List.of("a", "b"), done.names());
            assertEquals("conflict", done.failures().get(0).problem().code());
            assertEquals(3, assertThrows(UnavailableException.class, () -> client.bulk(BulkAction.DELETE, Filter.builder().build())).progress().changed());
        }
    }

    @Test
    void aBulkChangeWhoseAnswerIsCutOffIsAnError() {
        String first = "{\"matched\":1,\"changed\":1,\"failed\":0,\"job\":\"b-1\"}\n";
        for (String body : List.of("", first, first + "{\"matched\":2")) {
            try (Scripted server = new Scripted(Scripted.reply(200, "application/x-ndjson", body)); RouseClient client = client(server)) {
                ConnectionFailedException cut = assertThrows(ConnectionFailedException.class, () -> client.bulk(BulkAction.DELETE, Filter.builder().build()));
                assertTrue(cut.unsure() && (body.isEmpty() || cut.getMessage().contains("job b-1")), cut.getMessage());
            }
        }
    }

    @Test
    void anAnswerThatIsNotAsDocumentedIsAnError() {
        Scripted.Answer page = Scripted.reply(200, "text/html", "<h1>login</h1>");
        Scripted.Answer moved = Scripted.reply(307, "text/html", "", "Location", "/v1/version");
        for (Scripted.Answer answer : List.of(page, moved, Scripted.json("[]"), Scripted.json("{"), Scripted.json("{\"calendars\":null}"))) {
            try (Scripted server = new Scripted(answer); RouseClient client = client(server)) {
                assertEquals("unexpected", assertThrows(ApiException.class, client::calendars).code());
                assertEquals(1, server.sent.size());
            }
        }
        for (Scripted.Answer answer : List.of(page, moved)) {
            try (Scripted server = new Scripted(answer); RouseClient client = client(server)) {
                assertThrows(ApiException.class, () -> client.complete("a", "id", 1));
            }
        }
    }

    @Test
    void listsAreReadPageByPage() {
        Scripted.Answer first = Scripted.json("{\"timers\":[" + TIMER + "," + TIMER + "],\"next_page_token\":\"t\"}");
        Scripted.Answer empty = Scripted.json("{\"timers\":[],\"next_page_token\":\"u\"}");
        Scripted.Answer last = Scripted.json("{\"timers\":[" + TIMER + "]}");
        try (Scripted server = new Scripted(first, first, empty, last, first, empty, last, first, empty, last); RouseClient client = client(server)) {
            assertEquals("a", client.list().iterator().next().name());
            assertEquals(1, server.sent.size());
            assertEquals(3, client.list().stream().count());
            assertEquals("/v1/namespaces/default/timers?page_token=u", server.sent.get(3).path());
            assertEquals(3, client.list().all().size());
            assertEquals(3, client.async().list().all().join().size());
            assertEquals(10, server.sent.size());
        }
    }

    @Test
    void anExceptionShowsWhereTheCallWasMade() {
        try (Scripted server = new Scripted(Scripted.problem(404, "not_found")); RouseClient client = client(server)) {
            Throwable at = assertThrows(NotFoundException.class, () -> client.get("a")).getSuppressed()[0];
            assertTrue(List.of(at.getStackTrace()).toString().contains("ClientTest"), at.toString());
        }
    }
}
