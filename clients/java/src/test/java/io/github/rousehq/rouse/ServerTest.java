package io.github.rousehq.rouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.TimeoutException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import io.github.rousehq.rouse.model.Fire;
import io.github.rousehq.rouse.model.FireRecord;
import io.github.rousehq.rouse.model.PollOptions;
import io.github.rousehq.rouse.model.RecordsOptions;
import io.github.rousehq.rouse.model.SigningKey;
import io.github.rousehq.rouse.model.Spec;
import io.github.rousehq.rouse.testing.DevServer;
import io.github.rousehq.rouse.testing.Receiver;

/** Against a real server: callbacks, subscriptions, TLS and keys. */
class ServerTest {
    @TempDir
    static Path dir;

    @Test
    void bothKindsOfSignaturesAreVerified() throws Exception {
        try (DevServer server = DevServer.start(List.of("serve", "--data", "data"), Map.of(), "--webhook-signatures", "v1,v1a", "--allow-private-targets"); RouseClient client = server.client(); Receiver receiver = Receiver.start()) {
            client.create("naïve/name+", Spec.builder(receiver.url()).schedule("@after 1ms").payload(Payload.json("{\"n\": 1}")).build());
            Receiver.Callback callback = receiver.await(1).get(0);
            Instant at = Instant.ofEpochSecond(Long.parseLong(callback.headers().get("webhook-timestamp").get(0)));
            List<SigningKey> keys = client.revealSigningKeys();
            String secret = keys.get(0).secret();
            String publicKey = keys.get(0).publicKey();
            String other = "whsec_" + "A".repeat(32);
            Webhooks.verifyIdentity(List.of(secret), callback.headers(), callback.body());
            Webhooks.verify(List.of(publicKey), callback.headers(), callback.body());
            Map<String, String> headers = new HashMap<>();
            callback.headers().forEach((name, values) -> headers.put(name.toLowerCase(), values.get(0)));
            for (List<String> given : List.of(List.of(secret), List.of(publicKey), List.of(other, secret))) {
                Identity fire = Webhooks.verifyIdentity(given, headers::get, callback.body(), at);
                assertEquals(List.of("default", "naïve/name+", 1L, false, false), List.of(fire.namespace(), fire.timer(), fire.attempt(), fire.manual(), fire.last()));
                assertEquals(headers.get("webhook-id"), fire.fireId());
                // What a library for CloudEvents reads is the same, if nothing has changed it.
                assertEquals(fire.fireId(), headers.get("ce-id"));
                assertEquals(fire.due(), Instant.parse(headers.get("ce-time")));
                assertEquals("1.0", headers.get("ce-specversion"));
                Webhooks.verifyIdentity(given, headers::get, callback.body(), at.plus(Webhooks.TOLERANCE));
                refused("another body", given, headers, (callback.text() + " ").getBytes(), at);
                refused("another id", given, with(headers, "webhook-id", "x"), callback.body(), at);
                refused("another attempt", given, with(headers, "rouse-attempt", "2"), callback.body(), at);
                refused("another timer", given, with(headers, "rouse-timer", "x"), callback.body(), at);
                refused("no identity", given, with(headers, "rouse-signature", null), callback.body(), at);
                refused("no signature", given, with(headers, "webhook-signature", null), callback.body(), at);
                refused("another version", given, with(headers, "webhook-signature", headers.get("webhook-signature").replace("v1", "v2")), callback.body(), at);
                refused("no base64", given, with(headers, "webhook-signature", "v1a,*** v1,***"), callback.body(), at);
                refused("a short signature", given, with(headers, "webhook-signature", "v1a,AAAA"), callback.body(), at);
                refused("too old", given, headers, callback.body(), at.plus(Webhooks.TOLERANCE).plusMillis(1));
                refused("too new", given, headers, callback.body(), at.minus(Webhooks.TOLERANCE).minusMillis(1));
                refused("no time", given, with(headers, "webhook-timestamp", "1e9"), callback.body(), at);
            }
            refused("another key", List.of(other), headers, callback.body(), at);
            refused("no key", List.of(), headers, callback.body(), at);
            for (String bad : List.of("whsec_x", "whpk_x", "", "whsec_AAAAAAAA")) {
                String message = assertThrows(IllegalArgumentException.class, () -> Webhooks.verify(List.of(bad), headers::get, callback.body(), at), bad).getMessage();
                assertFalse(message.contains("AAAA"), message);
            }
            receiver.answer(422);
            client.create("refused", Spec.builder(receiver.url()).schedule("@after 1ms").build());
            Scripted.until("it is a dead letter", () -> !client.deadLetters().all().isEmpty());
            assertThrows(TimeoutException.class, () -> receiver.await(9, Duration.ofMillis(1)));
        }
    }

    private static void refused(String what, List<String> keys, Map<String, String> headers, byte[] body, Instant at) {
        assertThrows(InvalidSignatureException.class, () -> Webhooks.verifyIdentity(keys, headers::get, body, at), what);
    }

    private static Map<String, String> with(Map<String, String> headers, String name, String value) {
        Map<String, String> changed = new HashMap<>(headers);
        if (value == null) {
            changed.remove(name);
        } else {
            changed.put(name, value);
        }
        return changed;
    }

    @Test
    void aRealServerGivesFiresAndTakesReports() throws Exception {
        try (DevServer server = DevServer.start(); RouseClient client = server.client()) {
            ConcurrentSkipListSet<String> attempts = new ConcurrentSkipListSet<>();
            SubscribeOptions options = SubscribeOptions.builder().labels(Map.of("of", "test")).build();
            Subscription subscription = client.subscribe("x", fire -> {
                attempts.add(fire.name() + " " + fire.attempt() + " " + fire.payload().text());
                if (fire.name().equals("refused")) {
                    throw FailedException.permanent("no such parcel");
                }
                if (fire.name().equals("again") && fire.attempt() == 1) {
                    throw FailedException.retryAfter("busy ".repeat(300) + "\ud83d", Duration.ZERO);
                }
            }, options);
            Spec spec = Spec.builder("stream:x").schedule("@after 1ms").labels(Map.of("of", "test")).payload(Payload.bytes("hi".getBytes())).build();
            client.createBatch(List.of(new NewTimer("done", spec), new NewTimer("refused", spec), new NewTimer("again", spec), new NewTimer("other", spec.toBuilder().labels(Map.of()).build())));
            Map<String, String> endings = new TreeMap<>();
            Scripted.until("all have ended", () -> {
                for (FireRecord record : client.records(RecordsOptions.builder().build())) {
                    endings.put(record.name(), record.ending() + " after " + record.attempts());
                }
                return endings.size() == 3;
            });
            assertEquals(Map.of("done", "fired after 1", "refused", "dead after 1", "again", "fired after 2"), endings);
            assertEquals("no such parcel", client.deadLetters().all().get(0).lastError());
            subscription.close();
            assertEquals("[again 1 hi, again 2 hi, done 1 hi, refused 1 hi]", attempts.toString());
            Fire other = client.poll("x").get(0);
            client.release(other.name(), other.fireId(), other.token());
            Fire same = client.poll(PollOptions.builder().channel("x").namePrefix("oth").max(1).build()).get(0);
            assertEquals(List.of(other.fireId(), 1L), List.of(same.fireId(), same.attempt()));
            assertEquals(List.of(), client.poll(PollOptions.builder().channel("x").waitFor(Duration.ofMillis(1)).build()));

            for (String step : List.of(".", "..", "a/..")) { // the server refuses them, and is asked for nothing else
                Spec any = Spec.builder("stream:y").schedule("@after 1h").build();
                assertEquals("name", assertThrows(InvalidException.class, () -> client.upsert(step, any), step).errors().get(0).field());
                assertThrows(ApiException.class, () -> client.delete(step), step);
            }
            for (String name : List.of("%2E", "*", "a:b", "a/b", "ü😀+&=?#", "a b", "\"")) {
                client.create(name, Spec.builder("stream:y").schedule("@after 1h").build());
                assertEquals(name, client.get(name).name());
                client.pause(name, "a test", null);
                client.delete(name);
                assertThrows(NotFoundException.class, () -> client.get(name), name);
            }
        }
    }

    private static String run(String... arguments) throws Exception {
        ProcessBuilder builder = new ProcessBuilder(arguments).directory(dir.toFile()).redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.command().add(0, System.getenv("ROUSE_BINARY"));
        builder.environment().keySet().removeIf(name -> name.startsWith("ROUSE_"));
        Process process = builder.start();
        String out = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor());
        return out;
    }

    @Test
    void keysAndCertificatesAreReadFromFiles() throws Exception {
        run("cert", "dev", "certs");
        Path certs = dir.resolve("certs");
        Path ca = certs.resolve("ca.crt");
        Path admin = Files.createFile(dir.resolve("admin.key"), java.nio.file.attribute.PosixFilePermissions.asFileAttribute(java.util.Set.of(
            java.nio.file.attribute.PosixFilePermission.OWNER_READ, java.nio.file.attribute.PosixFilePermission.OWNER_WRITE)));
        Files.writeString(admin, run("key", "generate"));
        List<String> serve = List.of("serve", "--data", "data", "--tls-cert", certs.resolve("server.crt").toString(), "--tls-key", certs.resolve("server.key").toString());
        try (DevServer server = DevServer.start(serve, Map.of(), "--admin-key-file", admin.toString())) {
            ClientBuilder known = RouseClient.builder().server(server.address()).ca(ca);
            try (RouseClient client = known.keyFile(admin).build()) {
                client.putNamespace("default");
                assertEquals("é".repeat(10_000), client.create("a", Spec.builder("stream:x").schedule("@after 1h").payload(Payload.of("é".repeat(10_000))).build()).payload().value());
            }
            try (RouseClient client = RouseClient.builder().server(server.address()).ca(ca).build()) {
                assertThrows(UnauthenticatedException.class, () -> client.get("a"));
            }
            // Those of the JDK do not know the server, and that is not going to change.
            try (RouseClient client = RouseClient.builder().server("https://" + server.address()).build()) {
                ConnectionFailedException failed = assertThrows(ConnectionFailedException.class, () -> client.run("a"));
                assertTrue(!failed.unsure() && failed.getMessage().contains("cannot be reached"), failed.getMessage());
            }
        }
        Path rules = Files.writeString(dir.resolve("principals.yaml"), "certificates:\n  - {name: \"spiffe://rouse.dev/client\", role: writer, namespaces: [\"*\"]}\n");
        try (DevServer server = DevServer.start(serve, Map.of(), "--tls-client-ca", ca.toString(), "--principals", rules.toString(), "--access", "keys")) {
            ClientBuilder mutual = RouseClient.builder().server(server.address()).ca(ca).clientCert(certs.resolve("client.crt")).clientKey(certs.resolve("client.key"));
            try (RouseClient client = mutual.build()) {
                assertThrows(NotFoundException.class, () -> client.get("a"));
            }
            try (RouseClient client = RouseClient.builder().server(server.address()).ca(ca).build()) {
                assertThrows(UnauthenticatedException.class, () -> client.get("a"));
            }
            // One of another authority, which is replaced.
            run("cert", "dev", "others");
            Path cert = Files.copy(dir.resolve("others/client.crt"), dir.resolve("mine.crt"));
            Path key = Files.copy(dir.resolve("others/client.key"), dir.resolve("mine.key"));
            ClientBuilder replaced = RouseClient.builder().server(server.address()).ca(ca).clientCert(cert).clientKey(key).patience(Duration.ZERO);
            try (RouseClient client = replaced.build()) {
                assertThrows(ConnectionFailedException.class, () -> client.get("a"));
                overwrite(cert, certs.resolve("client.crt"));
                assertThrows(ConnectionFailedException.class, () -> client.get("a")); // the key does not fit
                overwrite(key, certs.resolve("client.key"));
                assertThrows(NotFoundException.class, () -> client.get("a"));
            }
        }
        ClientBuilder unfit = RouseClient.builder().server("h:1").clientCert(certs.resolve("client.crt")).clientKey(dir.resolve("others/client.key"));
        assertTrue(assertThrows(IllegalArgumentException.class, unfit::build).getMessage().contains("not that of the certificate"));
        ClientBuilder swapped = RouseClient.builder().server("h:1").ca(certs.resolve("server.key"));
        assertTrue(assertThrows(IllegalArgumentException.class, swapped::build).getMessage().contains("certificate"));
        ClientBuilder noKey = RouseClient.builder().server("h:1").clientCert(certs.resolve("client.crt"));
        assertTrue(assertThrows(IllegalArgumentException.class, noKey::build).getMessage().contains("openssl pkcs8"));
    }

    /** Overwrites a file, and has its time differ: file systems keep it in steps of milliseconds. */
    private static void overwrite(Path file, Path by) throws Exception {
        Files.write(file, Files.readAllBytes(by));
        Files.setLastModifiedTime(file, FileTime.from(Instant.now().plusSeconds(5)));
    }

    @Test
    void aServerThatDoesNotStartTellsWhy() {
        String message = assertThrows(IllegalStateException.class, () -> DevServer.start("--nothing")).getMessage();
        assertTrue(message.contains("did not start:\n") && message.contains("--nothing"), message);
    }
}
