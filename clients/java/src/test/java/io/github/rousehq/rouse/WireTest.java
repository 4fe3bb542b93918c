package io.github.rousehq.rouse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.junit.jupiter.api.Test;

import io.github.rousehq.rouse.model.Answer;
import io.github.rousehq.rouse.model.Expect;
import io.github.rousehq.rouse.model.Filter;
import io.github.rousehq.rouse.model.PollOptions;
import io.github.rousehq.rouse.model.Retry;
import io.github.rousehq.rouse.model.Spec;
import io.github.rousehq.rouse.model.State;
import io.github.rousehq.rouse.model.Timer;
import io.github.rousehq.rouse.model.Webhook;

/** How values are sent and read. */
class WireTest {
    @Test
    void jsonIsReadAndWritten() {
        for (String text : List.of("{}", "[]", "null", "true", "-1", "0", "9223372036854775807", "9223372036854775808", "1.50", "1E+2", "\"\"", "\"ü😀/\"",
            "{\"a\":[1,{\"b\":null}],\"c\":false}", "\"\\\"\\\\\\n\\r\\t\\u0001\"")) {
            assertEquals(text, Json.write(Json.parse(text)), text);
        }
        assertEquals("a\b\f/é😀", Json.parse(" \"a\\b\\f\\/\\u00e9\\uD83D\\ude00\"\n"));
        assertEquals(Arrays.asList(1L, new BigInteger("9223372036854775808"), new BigDecimal("1.0"), null), Json.parse("[1, 9223372036854775808 ,1.0,null]"));
        for (String bad : List.of("", " ", "{", "[1", "[1,]", "{\"a\"}", "{\"a\":1,}", "{a:1}", "01", "1.", "-", "+1", ".5", "1e", "nul", "tru", "\"", "\"\\x\"", "\"\\u12\"",
            "\"\\uGGGG\"", "\"\n\"", "1 2", "NaN", "'a'", "[".repeat(100) + "]".repeat(100))) {
            assertThrows(IllegalArgumentException.class, () -> Json.parse(bad), bad);
        }
        for (Object bad : new Object[] {Double.NaN, Float.POSITIVE_INFINITY, new Object(), Map.of(1, 2), List.of(Instant.EPOCH)}) {
            assertThrows(IllegalArgumentException.class, () -> Json.write(bad), bad.toString());
        }
        assertThrows(IllegalArgumentException.class, () -> Json.bytes("a\ud83d"));
        assertEquals(1_000_000, Json.write(Json.parse("\"" + "x".repeat(999_998) + "\"")).length());
    }

    @Test
    void durationsAreReadAndWritten() {
        Map<String, Duration> texts = Map.of("90s", Duration.ofSeconds(90), "1h30m0s", Duration.ofMinutes(90), "24h0m0s", Duration.ofHours(24), "250ms", Duration.ofMillis(250),
            "1.5s", Duration.ofMillis(1500), "0s", Duration.ZERO, "0", Duration.ZERO, "-1m", Duration.ofMinutes(-1), "2µs", Duration.ofNanos(2000), "168h", Duration.ofDays(7));
        texts.forEach((text, duration) -> assertEquals(duration, Wire.duration(text), text));
        for (String bad : List.of("", "90", "forever", "1h 2m", "s", "1d", "-", "h1")) {
            assertThrows(IllegalArgumentException.class, () -> Wire.duration(bad), bad);
        }
        for (Duration d : List.of(Duration.ofHours(1), Duration.ofMillis(250), Duration.ofNanos(1_500_000_001), Duration.ZERO, Duration.ofMillis(-1500), Duration.ofNanos(-1))) {
            assertEquals(d, Wire.duration(Wire.text(d)), Wire.text(d));
        }
    }

    @Test
    void specsAreSent() {
        Spec spec = Spec.builder("stream:x").payload(Payload.bytes(new byte[] {0, (byte) 0xff})).except(List.of("2027-12-24")).start(Instant.parse("2027-03-28T01:02:03.456Z"))
            .retry(Retry.builder().attempts(3).timeout(Duration.ofSeconds(5)).build()).overlap(Spec.Overlap.SKIP).keep("forever").maxOccurrences(0)
            .webhook(Webhook.builder().method(Webhook.Method.PUT).build()).build();
        Map<String, Object> want = new LinkedHashMap<>();
        want.put("target", "stream:x");
        want.put("except", List.of("2027-12-24"));
        want.put("start", "2027-03-28T01:02:03.456Z");
        want.put("max_occurrences", 0L);
        want.put("payload_base64", "AP8=");
        want.put("retry", Map.of("attempts", 3L, "timeout", "5s"));
        want.put("overlap", "skip");
        want.put("keep", "forever");
        want.put("webhook", Map.of("method", "PUT"));
        assertEquals(want, Wire.members(spec));
        assertEquals(spec, Wire.decode(Spec.class, Json.parse(Json.write(Wire.members(spec)), "payload")));
        assertEquals(spec, spec.toBuilder().build());
        assertEquals("wait", Wire.members(PollOptions.builder().waitFor(Duration.ofSeconds(1)).build()).keySet().iterator().next());
        assertEquals(Map.of("notify", "stream:y"), Wire.members(new Expect(null, null, "stream:y")));
        assertThrows(NullPointerException.class, () -> Spec.builder(null).build());
        Map<String, String> labels = new HashMap<>(Map.of("a", "b"));
        Spec labelled = Spec.builder("stream:x").labels(labels).build();
        labels.clear();
        assertEquals(Map.of("a", "b"), labelled.labels());
        assertThrows(UnsupportedOperationException.class, () -> labelled.labels().clear());
    }

    @Test
    void payloadsStayAsTheyAre() {
        String payload = "{ \"id\":12345678901234567890, \"one\":1.0, \"text\":\"a, }\\\" b\", \"payload\":[{}] }";
        Timer timer = Wire.decode(Timer.class, Wire.object("{\"name\":\"a\",\"target\":\"stream:x\",\"state\":\"a later one\",\"labels\":{\"payload\":\"no\"},\"payload\":" + payload
            + ",\"answer\":{\"payload_base64\":\"AP8=\"},\"of_a_later_server\":{\"payload\":1}}"));
        assertEquals(payload, timer.payload().text());
        assertEquals("no", timer.labels().get("payload"));
        assertEquals(State.UNRECOGNIZED, timer.state());
        assertArrayEquals(new byte[] {0, (byte) 0xff}, timer.answer().payload().bytes());
        assertTrue(Json.write(Wire.members(timer.spec())).contains("\"payload\":" + payload));
        assertEquals(List.of(), timer.failures());
        assertNull(timer.due());
        assertEquals(new BigInteger("12345678901234567890"), ((Map<?, ?>) timer.payload().value()).get("id"));
        assertEquals("null", Payload.of(null).text());
        assertNull(Wire.decode(Answer.class, Map.of()).payload());
        assertThrows(IllegalArgumentException.class, () -> Payload.json("{"));
        assertEquals(Payload.json("1"), Payload.of(1));
    }

    @Test
    void pathsAndQueriesAreEscaped() {
        assertEquals("/v1/namespaces/n/timers/a%2Fb%3Ac%20%C3%BC%F0%9F%98%80%3F%23%25%2B:run", Wire.path("namespaces", "n", "timers", "a/b:c ü😀?#%+") + ":run");
        assertEquals("/v1/timers/%3Arun", Wire.path("timers", ":run"));
        assertEquals("/v1/timers/%2E%2E/records", Wire.path("timers", "..", "records"));
        assertEquals("/v1/timers/%2E", Wire.path("timers", "."));
        assertEquals("/v1/timers/...", Wire.path("timers", "..."));
        assertThrows(IllegalArgumentException.class, () -> Wire.path("\ud83d"));
        Map<String, Object> query = Wire.members(Filter.builder().labels(Map.of("a b", "c=d")).states(List.of(State.DEAD, State.ENDED)).dueFrom(Instant.EPOCH).build());
        assertEquals("?state=dead&state=ended&label=a%20b%3Dc%3Dd&due_from=1970-01-01T00%3A00%3A00Z", Wire.query(query));
        assertEquals("", Wire.query(Map.of()));
        assertEquals("naïve/name+ ", Wire.unescape("na%C3%AFve%2Fname+%20"));
    }

    @Test
    void theTimeUntilARetryIsRead() {
        String sent = "Sun, 28 Mar 2027 01:00:00 GMT";
        String later = "Sun, 28 Mar 2027 01:00:07 GMT";
        Instant now = Instant.parse("2027-03-28T01:00:05Z");
        assertNull(Wire.retryAfter(Optional.empty(), Optional.of(sent), now));
        assertEquals(Duration.ofSeconds(3), Wire.retryAfter(Optional.of("3"), Optional.of(sent), now));
        assertEquals(Duration.ofSeconds(7), Wire.retryAfter(Optional.of(later), Optional.of(sent), now));
        assertEquals(Duration.ofSeconds(2), Wire.retryAfter(Optional.of(later), Optional.empty(), now));
        assertEquals(Duration.ZERO, Wire.retryAfter(Optional.of(sent), Optional.of(later), now));
        for (String bad : List.of("soon", "-1", "", "99999999999999")) {
            assertNull(Wire.retryAfter(Optional.of(bad), Optional.of(sent), now), bad);
        }
        assertNull(Wire.retryAfter(Optional.of(later), Optional.of("now"), now));
    }

    @Test
    void problemsAreExceptions() {
        ApiException invalid = Wire.problem(reply(422, "application/problem+json; charset=utf-8", "{\"type\":\"t\",\"title\":\"Invalid\",\"status\":422,\"code\":\"invalid\",\"errors\":"
            + "[{\"field\":\"retry.attempts\",\"value\":\"5000\",\"detail\":\"is too large\",\"cure\":\"use at most 1000\"}]}"), null);
        assertInstanceOf(InvalidException.class, invalid);
        assertEquals("retry.attempts \"5000\" is too large: use at most 1000 (invalid)", invalid.getMessage());
        assertEquals("use at most 1000", invalid.errors().get(0).cure());
        ApiException gateway = Wire.problem(reply(502, "text/html", "<h1>bad gateway</h1>"), Duration.ofSeconds(3));
        assertInstanceOf(UnavailableException.class, gateway);
        assertEquals("unexpected answer of http://proxy:1/v1/timers: HTTP status 502: <h1>bad gateway</h1>", gateway.detail());
        assertEquals(Duration.ofSeconds(3), gateway.retryAfter());
        for (String cutOff : List.of("[", "[]", "{}", "{\"code\":1}", "null")) {
            assertEquals("unexpected", Wire.problem(reply(500, "application/problem+json", cutOff), null).code(), cutOff);
        }
        for (int status = 400; status < 600; status++) {
            if (List.of(429, 502, 503, 504).contains(status)) {
                continue; // they mean the same from a load balancer
            }
            for (Transport.Reply reply : List.of(reply(status, "text/html", "<h1>no</h1>"), reply(status, "application/problem+json", "{\"title\":\"another's\"}"),
                reply(status, "application/json", "{\"code\":\"not_found\"}"))) {
                ApiException page = Wire.problem(reply, null);
                assertEquals("unexpected", page.code(), reply.text());
                assertEquals(status, page.status());
                assertEquals(ApiException.class, page.getClass());
            }
        }
    }

    private static Transport.Reply reply(int status, String contentType, String body) {
        HttpHeaders headers = HttpHeaders.of(Map.of("Content-Type", List.of(contentType)), (a, b) -> true);
        return new Transport.Reply("http://proxy:1/v1/timers?page_token=x", status, headers, body.getBytes(StandardCharsets.UTF_8));
    }

    private static Settings settings(ClientBuilder builder, String... environment) {
        Map<String, String> variables = new HashMap<>();
        for (int i = 0; i < environment.length; i += 2) {
            variables.put(environment[i], environment[i + 1]);
        }
        return Settings.of(builder, variables);
    }

    @Test
    void plainTextIsForThisHost() {
        assertEquals(List.of("http://127.0.0.1:7411"), settings(new ClientBuilder()).bases());
        assertEquals(List.of("http://127.0.0.1:7411", "http://[::1]:1", "http://localhost:2"), settings(new ClientBuilder().server("127.0.0.1:7411, [::1]:1,localhost:2")).bases());
        assertEquals(List.of("https://rouse.example.com:7411"), settings(new ClientBuilder(), "ROUSE_SERVER", "rouse.example.com:7411").bases());
        assertEquals("https://rouse.example.com", settings(new ClientBuilder().server("https://rouse.example.com/")).bases().get(0));
        for (String bad : List.of("ftp://x", "http://", "http://h/path", "http://u:p@h", "h:1,", "a b", "h?x")) {
            String message = assertThrows(IllegalArgumentException.class, () -> settings(new ClientBuilder().server(bad)), bad).getMessage();
            assertTrue(message.contains("use HOST:PORT"), message);
        }
    }

    @Test
    void aKeyIsSentUnderTlsOnly() {
        assertEquals("rk_1", settings(new ClientBuilder().key("rk_1\n")).key());
        assertEquals("rk_2", settings(new ClientBuilder(), "ROUSE_KEY", "rk_2", "ROUSE_NAMESPACE", "n").key());
        assertNull(settings(new ClientBuilder(), "ROUSE_KEY", " ").key());
        String message = assertThrows(IllegalArgumentException.class, () -> settings(new ClientBuilder().server("http://rouse.example.com").key("rk_secret"))).getMessage();
        assertTrue(message.contains("only under TLS"), message);
        assertFalse(message.contains("rk_secret"), message);
    }
}
