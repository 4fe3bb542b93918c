package io.github.rousehq.rouse;

import java.lang.reflect.Method;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;

import io.github.rousehq.rouse.model.BulkAction;
import io.github.rousehq.rouse.model.BulkOptions;
import io.github.rousehq.rouse.model.Day;
import io.github.rousehq.rouse.model.Failure;
import io.github.rousehq.rouse.model.Fault;
import io.github.rousehq.rouse.model.Filter;
import io.github.rousehq.rouse.model.Fire;
import io.github.rousehq.rouse.model.ListOptions;
import io.github.rousehq.rouse.model.NotifyRule;
import io.github.rousehq.rouse.model.PollOptions;
import io.github.rousehq.rouse.model.PutLimit;
import io.github.rousehq.rouse.model.Quotas;
import io.github.rousehq.rouse.model.RecordsOptions;
import io.github.rousehq.rouse.model.SigningKey;
import io.github.rousehq.rouse.model.Spec;
import io.github.rousehq.rouse.model.When;

/** Runs the conformance script of the clients: Conformance sync|async SERVER CONTROLS RECEIVER STEPS. See clients/conformance. */
public final class Conformance {
    /** Fails a step. */
    private static final class Mismatch extends RuntimeException {
        private static final long serialVersionUID = 1;

        Mismatch(String message) {
            super(message);
        }
    }

    private final HttpClient http = HttpClient.newHttpClient();
    private final AutoCloseable client;
    private final String controls;
    private final Map<String, Object> kept = new HashMap<>();
    private List<?> deliveries = List.of();
    private Subscription subscription;
    private final Set<String> names = new ConcurrentSkipListSet<>(); // of the fires whose handlers have begun
    private final List<Throwable> lost = new CopyOnWriteArrayList<>();
    private final CompletableFuture<Void> free = new CompletableFuture<>(); // ends the handlers of fires whose names begin with "slow"

    private Conformance(String kind, String server, String controls, String receiver) {
        ClientBuilder builder = RouseClient.builder().server(server);
        this.client = kind.equals("async") ? builder.buildAsync() : builder.build();
        this.controls = controls;
        kept.put("receiver", receiver);
    }

    public static void main(String[] args) throws Exception {
        Conformance runner = new Conformance(args[0], args[1], args[2], args[3]);
        int n = 0;
        for (Object step : (List<?>) Json.parse(Files.readString(Path.of(args[4])))) {
            n++;
            try {
                runner.step(map(step));
            } catch (Mismatch e) {
                System.out.println("step " + n + ", " + map(step).get("step") + ": " + Json.write(step) + ": " + e.getMessage());
                System.exit(1);
            }
        }
        runner.client.close();
        System.out.println(n + " steps");
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return value == null ? Map.of() : (Map<String, Object>) value;
    }

    private static void check(boolean holds, String text) {
        if (!holds) {
            throw new Mismatch(text);
        }
    }

    private Object control(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(controls + path)).method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        check(answer.statusCode() == 200, path + " answers " + answer.statusCode());
        return answer.body().isEmpty() ? null : Json.parse(answer.body());
    }

    private void step(Map<String, Object> step) throws Exception {
        Map<String, Object> fault = new LinkedHashMap<>();
        fault.put("fault", step.get("fault"));
        control("POST", "/begin", Json.write(fault));
        long began = System.nanoTime();
        for (;;) {
            Object result;
            try {
                result = call((String) step.get("op"), map(replaced(step.getOrDefault("with", Map.of()))), (String) step.get("in"));
                check(!step.containsKey("error"), "it returned " + result);
            } catch (RouseException e) {
                if (!step.containsKey("error")) {
                    throw new Mismatch("it failed: " + e);
                }
                checkError(map(replaced(step.get("error"))), e);
                break;
            }
            try {
                matches(replaced(step.get("want")), result, "result");
            } catch (Mismatch e) {
                if (!step.containsKey("until") || System.nanoTime() - began > 30_000_000_000L) {
                    throw e;
                }
                Thread.sleep(20);
                continue;
            }
            for (Map.Entry<String, Object> keep : map(step.get("keep")).entrySet()) {
                Object value = result;
                for (String part : ((String) keep.getValue()).split("\\.")) {
                    value = value instanceof List<?> list ? list.get(Integer.parseInt(part)) : map(value).get(part);
                }
                kept.put(keep.getKey(), value);
            }
            break;
        }
        double took = (System.nanoTime() - began) / 1e9;
        check(took >= number(step.getOrDefault("longer_than", 0L)), "it took only " + took + " s");
        Object made = map(control("GET", "/requests", "")).get("requests");
        check(step.getOrDefault("requests", made).equals(made), "it made " + made + " requests");
    }

    private static double number(Object value) {
        return ((Number) value).doubleValue();
    }

    private static void checkError(Map<String, Object> want, RouseException error) {
        String code = error instanceof ApiException e ? e.code() : error instanceof InvalidSignatureException ? "signature" : error instanceof ConnectionFailedException ? "no_answer" : "";
        check(code.equals(want.get("code")), "the code is " + code + ": " + error);
        if (want.containsKey("fields")) {
            List<String> fields = error instanceof ApiException e ? e.errors().stream().map(Fault::field).sorted().toList() : List.of();
            check(fields.equals(want.get("fields")), "it names " + fields + ": " + error);
        }
    }

    /** Puts what was kept in place of its names. */
    private Object replaced(Object value) {
        if (value instanceof String text && text.startsWith("$")) {
            String[] parts = text.substring(1).split("/", 2);
            return parts.length == 2 ? kept.get(parts[0]) + "/" + parts[1] : kept.get(parts[0]);
        }
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> out = new LinkedHashMap<>();
            map.forEach((k, v) -> out.put(k, replaced(v)));
            return out;
        }
        return value instanceof List<?> list ? list.stream().map(this::replaced).toList() : value;
    }

    /** Calls a method of the client, and returns its result at last. */
    private Object invoke(Object client, String method, Object... args) throws Exception {
        for (Method m : client.getClass().getMethods()) {
            if (m.getName().equals(method) && m.getParameterCount() == args.length && accepts(m.getParameterTypes(), args)) {
                Object result;
                try {
                    result = m.invoke(client, args);
                } catch (java.lang.reflect.InvocationTargetException e) {
                    throw e.getCause() instanceof Exception cause ? cause : e;
                }
                return result instanceof CompletableFuture<?> future ? Calls.await(future)
                    : result instanceof AsyncListing<?> listing ? Calls.await(listing.all()) : result instanceof Listing<?> listing ? listing.all() : result;
            }
        }
        throw new IllegalStateException("there is no method " + method + " with " + Arrays.toString(args));
    }

    private static boolean accepts(Class<?>[] types, Object[] args) {
        for (int i = 0; i < types.length; i++) {
            Class<?> type = types[i] == long.class ? Long.class : types[i] == boolean.class ? Boolean.class : types[i];
            if (args[i] == null ? types[i].isPrimitive() : !type.isInstance(args[i])) {
                return false;
            }
        }
        return true;
    }

    private static <T extends Record> T read(Class<T> record, Object json) {
        return Wire.decode(record, Json.parse(Json.write(json), "payload"));
    }

    /** Calls an operation, and returns its result as JSON. */
    private Object call(String op, Map<String, Object> given, String namespace) throws Exception {
        Object c = namespace == null ? client : invoke(client, "within", namespace);
        if (given.containsKey("key")) {
            c = invoke(c, "withIdempotencyKey", given.get("key"));
        }
        Object name = given.get("name");
        Object token = given.get("token");
        Object result = switch (op) {
            case "clock" -> invoke(c, "clock");
            case "create" -> name == null ? invoke(c, "create", read(Spec.class, given.get("spec"))) : invoke(c, "create", name, read(Spec.class, given.get("spec")));
            case "get", "explain", "resume", "delete", "run" -> invoke(c, op, name);
            case "count" -> Map.of("count", invoke(c, "count", read(Filter.class, given)));
            case "upsert" -> {
                Spec spec = read(Spec.class, given.get("spec"));
                yield given.containsKey("revision") ? invoke(c, "upsert", name, spec, given.get("revision")) : invoke(c, given.containsKey("existing") ? "upsertExisting" : "upsert", name, spec);
            }
            case "patch" -> {
                Patch patch = Patch.json(Json.write(given.get("patch")));
                yield given.containsKey("revision") ? invoke(c, "patch", name, patch, given.get("revision")) : invoke(c, "patch", name, patch);
            }
            case "badge" -> invoke(c, "badge", name);
            case "get_namespace" -> invoke(c, "getNamespace", name);
            case "put_notify" -> {
                List<NotifyRule> rules = ((List<?>) given.get("rules")).stream().map(rule -> read(NotifyRule.class, rule)).toList();
                yield given.containsKey("revision") ? invoke(c, "putNotify", name, rules, given.get("revision")) : invoke(c, "putNotify", name, rules);
            }
            case "create_batch" -> {
                List<NewTimer> timers = new ArrayList<>();
                for (Object timer : (List<?>) given.get("timers")) {
                    timers.add(new NewTimer((String) map(timer).get("name"), read(Spec.class, map(timer).get("spec"))));
                }
                yield invoke(c, "createBatch", timers);
            }
            case "list" -> invoke(c, "list", read(Filter.class, given), read(ListOptions.class, given));
            case "dead_letters" -> invoke(c, "deadLetters", read(Filter.class, given), read(ListOptions.class, given));
            case "pause" -> invoke(c, "pause", name, given.get("reason"), null);
            case "skip" -> invoke(c, "skip", name, given.get("count"), given.get("reason"));
            case "reschedule" -> invoke(c, "reschedule", name, read(When.class, given.get("when")));
            case "preview" -> invoke(c, "preview", read(When.class, given.get("when")), null, Instant.parse((String) given.get("start")), given.get("count"));
            case "put_calendar" -> invoke(c, "putCalendar", name, ((List<?>) given.get("days")).stream().map(day -> read(Day.class, day)).toList());
            case "calendar" -> invoke(c, "calendar", name);
            case "delete_calendar" -> invoke(c, "deleteCalendar", name);
            case "put_limit" -> invoke(c, "putLimit", name, read(PutLimit.class, given.get("limit")));
            case "limits" -> invoke(c, "limits");
            case "limit" -> invoke(c, "limit", name);
            case "pause_limit" -> invoke(c, "pauseLimit", name);
            case "resume_limit" -> invoke(c, "resumeLimit", name);
            case "reset_limit" -> invoke(c, "resetLimit", name);
            case "delete_limit" -> invoke(c, "deleteLimit", name);
            case "bulk" -> invoke(c, "bulk", BulkAction.valueOf(((String) given.get("action")).toUpperCase()), read(Filter.class, given.get("filter")), read(BulkOptions.class, given));
            case "put_namespace" -> invoke(c, "putNamespace", name, read(Quotas.class, given.get("quotas")));
            case "advance_clock" -> invoke(c, "advanceClock", Wire.duration((String) given.get("by")));
            case "records" -> invoke(c, "records", read(RecordsOptions.class, given));
            case "redrive" -> invoke(c, "redrive", name, given.get("fire_id"));
            case "poll" -> invoke(c, "poll", read(PollOptions.class, given));
            case "complete", "release" -> invoke(c, op, name, given.get("fire_id"), token);
            case "heartbeat" -> invoke(c, op, name, given.get("fire_id"), token, Wire.duration((String) given.get("extend")));
            case "fail" -> invoke(c, op, name, given.get("fire_id"), token, read(Failure.class, given));
            case "deliveries" -> deliveries = (List<?>) control("GET", "/deliveries?count=" + given.get("count"), "");
            case "subscribe" -> subscribe(c, (String) given.get("channel"));
            case "unsubscribe" -> {
                free.complete(null);
                subscription.close();
                yield null;
            }
            case "verify" -> verify(given);
            default -> throw new IllegalStateException("there is no operation " + op);
        };
        return result == null ? Map.of() : Json.parse(Json.write(Wire.encode(result)));
    }

    /** Begins a subscription unless there is one, and returns what it has come to. */
    private Object subscribe(Object client, String channel) throws Exception {
        if (subscription == null) {
            SubscribeOptions options = SubscribeOptions.builder().lost(lost::add).build();
            Handler handler = fire -> handle(fire).join();
            AsyncHandler async = this::handle;
            subscription = (Subscription) invoke(client, "subscribe", channel, client instanceof RouseAsyncClient ? async : handler, options);
        }
        return Map.of("names", List.copyOf(names), "lost", !lost.isEmpty());
    }

    private CompletableFuture<Void> handle(Fire fire) {
        names.add(fire.name());
        return fire.name().startsWith("slow") ? free : CompletableFuture.completedFuture(null);
    }

    private Object verify(Map<String, Object> given) throws Exception {
        Map<String, Object> delivery = map(deliveries.get(((Long) given.get("delivery")).intValue()));
        Map<String, List<String>> headers = new TreeMap<>();
        map(delivery.get("headers")).forEach((k, v) -> headers.put(k, List.of((String) v)));
        map(given.get("headers")).forEach((k, v) -> headers.put(k, List.of((String) v)));
        List<String> keys = List.of("whsec_" + "A".repeat(32));
        if (!given.get("keys").equals("other")) {
            List<?> revealed = (List<?>) invoke(client, "revealSigningKeys");
            keys = revealed.stream().map(SigningKey.class::cast).map(given.get("keys").equals("secret") ? SigningKey::secret : SigningKey::publicKey).toList();
        }
        Map<String, String> lower = new HashMap<>();
        headers.forEach((k, v) -> lower.put(k.toLowerCase(), v.get(0)));
        Instant now = Instant.ofEpochSecond(Long.parseLong(lower.get("webhook-timestamp"))).plus(Duration.ofSeconds((Long) given.getOrDefault("late", 0L)));
        return Webhooks.verifyIdentity(keys, lower::get, ((String) given.getOrDefault("body", delivery.get("body"))).getBytes(), now);
    }

    /** Checks that a result is as wanted. */
    private static void matches(Object want, Object got, String where) {
        if ("*".equals(want)) {
            check(got != null, where + " is missing");
        } else if (want instanceof Map<?, ?> members) {
            check(got instanceof Map, where + " is " + got);
            members.forEach((name, value) -> {
                Object found = map(got).get(name); // an empty member may be left out
                boolean empty = found == null && (List.of().equals(value) || Boolean.FALSE.equals(value) || Long.valueOf(0).equals(value));
                if (!empty) {
                    matches(value, found, where + "." + name);
                }
            });
        } else if (want instanceof List<?> list) {
            check(got instanceof List, where + " is " + got);
            boolean more = !list.isEmpty() && "…".equals(list.get(list.size() - 1));
            int size = more ? list.size() - 1 : list.size();
            List<?> rows = (List<?>) got;
            check(more ? rows.size() >= size : rows.size() == size, where + " has " + rows.size() + " elements: " + got);
            for (int i = 0; i < size; i++) {
                matches(list.get(i), rows.get(i), where + "[" + i + "]");
            }
        } else if (want instanceof String text && text.matches("\\d{4}-\\d\\d-\\d\\dT.*") && got instanceof String time) {
            check(Instant.parse(text).equals(Instant.parse(time)), where + " is " + got + ", not " + want);
        } else if (want instanceof Number a && got instanceof Number b) {
            check(number(a) == number(b), where + " is " + got + ", not " + want);
        } else {
            check(want == null ? got == null : want.equals(got), where + " is " + got + ", not " + want);
        }
    }
}
