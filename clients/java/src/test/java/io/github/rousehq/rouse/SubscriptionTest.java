package io.github.rousehq.rouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.Semaphore;

import org.junit.jupiter.api.Test;

/** Subscriptions, with a server that answers as the test wants. */
class SubscriptionTest {
    /** A server whose polls give the fires of a list, and that keeps the reports. */
    private static final class Service implements AutoCloseable {
        final LinkedBlockingDeque<Scripted.Answer> polls = new LinkedBlockingDeque<>();
        final List<String> reports = new CopyOnWriteArrayList<>();
        final List<String> asked = new CopyOnWriteArrayList<>();
        final Map<String, Scripted.Answer> answers = new ConcurrentHashMap<>(); // by the verb of a report
        private final Scripted server = new Scripted((exchange, body) -> {
            String path = exchange.getRequestURI().getRawPath();
            if (path.endsWith("/clock")) {
                Scripted.json("{\"now\":\"2027-01-01T00:00:00Z\",\"virtual\":false}").to(exchange, body);
            } else if (path.endsWith(":poll")) {
                asked.add(body);
                polls.take().to(exchange, body);
            } else {
                String verb = path.substring(path.lastIndexOf(':') + 1);
                reports.add(path.split("/")[5] + " " + verb + " " + body);
                answers.getOrDefault(verb, Scripted.json("{}")).to(exchange, body);
            }
        });
        final RouseClient client = RouseClient.builder().server(server.address()).patience(Duration.ZERO).build();

        /** Fires come in one poll; the deadline of each is after so many milliseconds. */
        void fires(int millis, String... names) {
            List<String> fires = new ArrayList<>();
            for (String name : names) {
                fires.add("{\"fire_id\":\"id\",\"namespace\":\"default\",\"name\":\"" + name + "\",\"generation\":1,\"attempt\":1,\"token\":5,\"due\":\"2027-01-01T00:00:00Z\",\"deadline\":\""
                    + Instant.parse("2027-01-01T00:00:00Z").plusMillis(millis) + "\"}");
            }
            polls.add(Scripted.json("{\"fires\":[" + String.join(",", fires) + "]}"));
        }

        long count(String report) {
            return reports.stream().filter(one -> one.startsWith(report)).count();
        }

        @Override
        public void close() {
            client.close();
            server.close();
        }
    }

    private static SubscribeOptions.Builder quiet(List<Throwable> lost) {
        return SubscribeOptions.builder().lost(lost::add);
    }

    @Test
    void aLongDeadlineIsNotExtendedEveryTenSeconds() {
        Duration extend = Duration.ofSeconds(30);
        assertEquals(Duration.ofSeconds(400), Subscription.extended(Duration.ofMinutes(10), extend));
        assertEquals(extend, Subscription.extended(Duration.ofSeconds(36), extend));
    }

    @Test
    void theDeadlineOfAFireIsExtendedWhileItsHandlerRuns() throws Exception {
        List<Throwable> lost = new CopyOnWriteArrayList<>();
        try (Service service = new Service()) {
            service.fires(30, "a");
            CountDownLatch done = new CountDownLatch(1);
            Subscription subscription = service.client.subscribe("x", fire -> done.await(), quiet(lost).extend(Duration.ofMillis(30)).build());
            Scripted.until("the deadline was extended twice", () -> service.count("a heartbeat") >= 2);
            assertEquals("a heartbeat {\"extend\":\"30000000ns\",\"token\":5}", sorted(service.reports.get(0)));
            done.countDown();
            subscription.close();
            assertEquals("a complete {\"token\":5}", service.reports.get(service.reports.size() - 1));
            assertEquals(List.of(), lost);
        }
    }

    private static String sorted(String report) {
        return report.replace("{\"token\":5,\"extend\":\"30000000ns\"}", "{\"extend\":\"30000000ns\",\"token\":5}");
    }

    @Test
    void aHandlerEndsIfAnotherAttemptHasItsFireAndNothingIsReported() throws Exception {
        List<Throwable> lost = new CopyOnWriteArrayList<>();
        CountDownLatch interrupted = new CountDownLatch(1);
        try (Service service = new Service()) {
            service.answers.put("heartbeat", Scripted.problem(409, "conflict"));
            service.fires(0, "a");
            Subscription subscription = service.client.subscribe("x", fire -> {
                try {
                    new CountDownLatch(1).await();
                } finally {
                    interrupted.countDown();
                }
            }, quiet(lost).build());
            interrupted.await();
            subscription.close();
            assertEquals(1, service.reports.size());
            assertInstanceOf(ConflictException.class, lost.get(0));
        }
        // The same with a handler that returns futures.
        lost.clear();
        try (Service service = new Service()) {
            service.answers.put("heartbeat", Scripted.problem(404, "not_found"));
            service.fires(0, "a");
            CompletableFuture<Void> work = new CompletableFuture<>();
            Subscription subscription = service.client.async().subscribe("x", fire -> work, quiet(lost).build());
            Scripted.until("the work is cancelled", work::isCancelled);
            subscription.close();
            assertEquals(1, service.reports.size());
        }
    }

    @Test
    void noMoreHandlersRunThanAskedForAndAStopWaitsForThem() throws Exception {
        List<Throwable> lost = new CopyOnWriteArrayList<>();
        Map<String, Semaphore> running = new ConcurrentHashMap<>();
        try (Service service = new Service()) {
            service.fires(60_000, "a", "b");
            Subscription subscription = service.client.subscribe("x", fire -> {
                Semaphore end = new Semaphore(0);
                running.put(fire.name(), end);
                end.acquire();
                running.remove(fire.name());
            }, quiet(lost).concurrency(2).drain(Duration.ofMillis(50)).build());
            Scripted.until("both run", () -> running.size() == 2);
            assertEquals(1, service.asked.size());
            service.fires(60_000, "c");
            running.get("a").release();
            Scripted.until("a third one runs", () -> running.containsKey("c"));
            assertTrue(service.asked.get(1).contains("\"max\":1"), service.asked.get(1));
            running.get("b").release();
            Scripted.until("b is reported", () -> service.count("b complete") == 1);
            CompletableFuture<?> stopped = subscription.stop();
            stopped.get(); // when c has had its time
            assertEquals(1, service.count("c fail"));
            assertTrue(service.reports.toString().contains("the subscription stops"), service.reports.toString());
            assertEquals(List.of(), lost);
        }
    }

    @Test
    void aHandlerThatIgnoresTheInterruptIsWaitedFor() throws Exception {
        try (Service service = new Service()) {
            service.fires(60_000, "a");
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch interrupted = new CountDownLatch(1);
            CountDownLatch end = new CountDownLatch(1);
            Subscription subscription = service.client.subscribe("x", fire -> {
                begun.countDown();
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                }
                end.await(); // it finishes what it has begun
            }, quiet(new ArrayList<>()).drain(Duration.ofMillis(1)).build());
            begun.await();
            CompletableFuture<?> stopped = subscription.stop();
            interrupted.await();
            end.countDown();
            stopped.get();
            assertEquals(List.of("a complete {\"token\":5}"), service.reports);
        }
    }

    @Test
    void whatWasNotBegunWhenTheTimeIsOverIsNotBegun() throws Exception {
        List<String> handled = new CopyOnWriteArrayList<>();
        ExecutorService one = Executors.newSingleThreadExecutor();
        try (Service service = new Service()) {
            service.fires(60_000, "a", "b");
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch interrupted = new CountDownLatch(1);
            CountDownLatch end = new CountDownLatch(1);
            Subscription subscription = service.client.subscribe("x", fire -> {
                handled.add(fire.name());
                begun.countDown();
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                    end.await();
                }
            }, quiet(new ArrayList<>()).drain(Duration.ofMillis(1)).executor(one).build());
            begun.await();
            CompletableFuture<?> stopped = subscription.stop();
            interrupted.await();
            Scripted.until("b is reported", () -> service.count("b fail") == 1);
            end.countDown();
            stopped.get();
            assertEquals(List.of("a"), handled);
            assertEquals(1, service.count("a complete"));
        } finally {
            one.shutdownNow();
        }
    }

    @Test
    void failuresAreReportedAsTheyAre() throws Exception {
        List<Throwable> lost = new CopyOnWriteArrayList<>();
        try (Service service = new Service()) {
            service.fires(60_000, "broken", "refused", "again", "error", "long");
            Subscription subscription = service.client.subscribe("x", fire -> {
                switch (fire.name()) {
                    case "broken" -> throw new java.io.IOException("no network");
                    case "refused" -> throw FailedException.permanent("no such parcel");
                    case "again" -> throw FailedException.retryAfter("busy", Duration.ZERO);
                    case "error" -> throw new StackOverflowError();
                    default -> throw new Exception("x".repeat(1023) + "\ud83d\ude00\ud83d");
                }
            }, quiet(lost).build());
            Scripted.until("all are reported", () -> service.reports.size() == 5);
            subscription.close();
            List<String> reports = new ArrayList<>(service.reports);
            reports.sort(null);
            assertEquals(Arrays.asList("again fail {\"detail\":\"busy\",\"permanent\":false,\"retry_after\":\"0s\",\"token\":5}", "broken fail {\"detail\":\"no network\",\"token\":5}",
                "error fail {\"detail\":\"java.lang.StackOverflowError\",\"token\":5}"), reports.subList(0, 3));
            assertTrue(reports.get(3).contains("x\ud83d\ude00\""), reports.get(3));
            assertEquals("refused fail {\"detail\":\"no such parcel\",\"permanent\":true,\"token\":5}", reports.get(4));
        }
    }

    @Test
    void aSubscriptionOutlivesFailuresThatPassAndEndsIfItIsRefused() throws Exception {
        List<Throwable> lost = new CopyOnWriteArrayList<>();
        try (Service service = new Service()) {
            service.polls.add(Scripted.problem(500, "internal"));
            service.polls.add(Scripted.problem(403, "forbidden"));
            Subscription subscription = service.client.subscribe("x", fire -> {}, quiet(lost).build());
            Throwable refused = assertThrows(CompletionException.class, subscription.ended()::join).getCause();
            assertInstanceOf(ForbiddenException.class, refused);
            assertEquals("internal", assertInstanceOf(ApiException.class, lost.get(0)).code());
            assertThrows(ForbiddenException.class, subscription::close);
        }
    }

    @Test
    void firesThatComeWhileASubscriptionStopsAreGivenBack() throws Exception {
        List<Throwable> lost = new CopyOnWriteArrayList<>();
        try (Service service = new Service()) {
            Subscription subscription = service.client.subscribe("x", fire -> {}, quiet(lost).build());
            synchronized (subscription) { // so that it stops when the answer has come, and before it is read
                service.fires(60_000, "a");
                Scripted.until("the fires wait", () -> Thread.getAllStackTraces().entrySet().stream().anyMatch(e -> e.getKey().getState() == Thread.State.BLOCKED
                    && Arrays.stream(e.getValue()).anyMatch(frame -> frame.getMethodName().equals("took"))));
                subscription.stop();
            }
            subscription.ended().join();
            assertEquals(List.of("a release {\"token\":5}"), service.reports);
            assertEquals(List.of(), lost);
        }
    }

    @Test
    void aListenerThatFailsDoesNotEndTheSubscription() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> {});
        try (Service service = new Service()) {
            service.polls.add(Scripted.cut());
            service.fires(60_000, "a");
            Subscription subscription = service.client.subscribe("x", fire -> ran.countDown(), SubscribeOptions.builder().lost(error -> {
                throw new IllegalStateException();
            }).build());
            ran.await();
            subscription.close();
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }
}
