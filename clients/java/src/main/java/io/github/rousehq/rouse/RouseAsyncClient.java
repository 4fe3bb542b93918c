package io.github.rousehq.rouse;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;
import java.util.function.UnaryOperator;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.AdvanceClock;
import io.github.rousehq.rouse.model.AggregateOptions;
import io.github.rousehq.rouse.model.Backfilled;
import io.github.rousehq.rouse.model.Badge;
import io.github.rousehq.rouse.model.BulkAction;
import io.github.rousehq.rouse.model.BulkFailure;
import io.github.rousehq.rouse.model.BulkOptions;
import io.github.rousehq.rouse.model.BulkProgress;
import io.github.rousehq.rouse.model.Calendar;
import io.github.rousehq.rouse.model.CalendarPut;
import io.github.rousehq.rouse.model.Clock;
import io.github.rousehq.rouse.model.CreateMode;
import io.github.rousehq.rouse.model.Created;
import io.github.rousehq.rouse.model.Day;
import io.github.rousehq.rouse.model.Deadline;
import io.github.rousehq.rouse.model.Deleted;
import io.github.rousehq.rouse.model.Explanation;
import io.github.rousehq.rouse.model.Failure;
import io.github.rousehq.rouse.model.Filter;
import io.github.rousehq.rouse.model.Fire;
import io.github.rousehq.rouse.model.FireRecord;
import io.github.rousehq.rouse.model.GroupBy;
import io.github.rousehq.rouse.model.Limit;
import io.github.rousehq.rouse.model.ListOptions;
import io.github.rousehq.rouse.model.Namespace;
import io.github.rousehq.rouse.model.Next;
import io.github.rousehq.rouse.model.NotifyRule;
import io.github.rousehq.rouse.model.PollOptions;
import io.github.rousehq.rouse.model.PoolCallOptions;
import io.github.rousehq.rouse.model.PutLimit;
import io.github.rousehq.rouse.model.Quotas;
import io.github.rousehq.rouse.model.Ran;
import io.github.rousehq.rouse.model.RecordGroups;
import io.github.rousehq.rouse.model.RecordsOptions;
import io.github.rousehq.rouse.model.SigningKey;
import io.github.rousehq.rouse.model.SimulateOptions;
import io.github.rousehq.rouse.model.Simulated;
import io.github.rousehq.rouse.model.Spec;
import io.github.rousehq.rouse.model.Timer;
import io.github.rousehq.rouse.model.TimerOutcomes;
import io.github.rousehq.rouse.model.Version;
import io.github.rousehq.rouse.model.When;

/**
 * Speaks the HTTP API of a rouse server. Its methods return futures, which fail with {@link RouseException}s; a future that is cancelled ends
 * its request, and the server may have done what was asked. It may be used by several threads at a time. {@link RouseClient} has the same
 * methods, which block.
 *
 * <pre>{@code
 * RouseAsyncClient client = RouseAsyncClient.builder().server(server).buildAsync();
 * client.create("hello", Spec.builder("stream:greetings").schedule("@after 1h").payload(Payload.of(Map.of("to", "you"))).build())
 *     .thenAccept(timer -> System.out.println(timer.state())) // scheduled
 *     .join();
 * client.close();
 * }</pre>
 */
public final class RouseAsyncClient implements AutoCloseable {
    private static final Duration WAIT = Duration.ofSeconds(30); // of polls and calls, if they name none

    private final Transport transport;
    private final String namespace;
    private final @Nullable String key; // of all that it changes

    RouseAsyncClient(Transport transport, String namespace, @Nullable String key) {
        this.transport = transport;
        this.namespace = namespace;
        this.key = key;
    }

    /**
     * Returns a builder of clients, with settings of the environment.
     *
     * @return a builder, whose {@link ClientBuilder#buildAsync()} makes a client
     */
    public static ClientBuilder builder() {
        return new ClientBuilder();
    }

    /**
     * Returns the namespace of the timers.
     *
     * @return its name
     */
    public String namespace() {
        return namespace;
    }

    /**
     * Returns a client for another namespace, which shares the connections of this one.
     *
     * @param namespace its name
     * @return a client
     */
    public RouseAsyncClient within(String namespace) {
        return new RouseAsyncClient(transport, namespace, key);
    }

    /**
     * Returns a client for one call, which the server carries out once: for a day, calls with one key, of different processes even, are the
     * same call. It shares the connections of this one. A timer without a name gets one that is made of the key.
     *
     * @param key up to 256 printable ASCII characters, such as the number of an order
     * @return a client
     */
    public RouseAsyncClient withIdempotencyKey(String key) {
        return new RouseAsyncClient(transport, namespace, key);
    }

    /** Closes the connections, when the calls in progress have ended: those of all clients that share them. */
    @Override
    public void close() {
        transport.close();
    }

    // Timers

    /**
     * Creates a timer. If the name exists, it fails with {@link AlreadyExistsException}.
     *
     * <p>The call is retried with one idempotency key, so a lost answer creates no second timer. With {@code debounce} or {@code throttle} in
     * place of a schedule, many calls for one name cause few fires; such a call is only retried {@linkplain #withIdempotencyKey with a key}.
     *
     * <pre>{@code
     * Spec spec = Spec.builder("stream:invoices").schedule("0 9 1 * *").timezone("Europe/Stockholm").labels(Map.of("team", "billing")).build();
     * System.out.println(client.create("invoice-17", spec).join().name()); // invoice-17
     * }</pre>
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @return a future of the timer
     */
    public CompletableFuture<Timer> create(String name, Spec spec) {
        return createAs(name, spec);
    }

    /**
     * Creates a timer, to which the server gives a name.
     *
     * @param spec when, what and where
     * @return a future of the timer
     */
    public CompletableFuture<Timer> create(Spec spec) {
        return createAs(null, spec);
    }

    private CompletableFuture<Timer> createAs(@Nullable String name, Spec spec) {
        Map<String, @Nullable Object> body = Wire.members(spec);
        if (name != null) {
            body.put("name", name);
        }
        boolean coalesces = spec.debounce() != null || spec.throttle() != null;
        Call call = new Call("POST", path("timers")).json(body);
        return read(Timer.class, coalesces ? call : call.once());
    }

    /**
     * Creates a timer, or replaces the existing one, which begins a new generation.
     *
     * <pre>{@code
     * Timer one = client.upsert("report", Spec.builder("stream:reports").schedule("@every 1h").build()).join();
     * Timer two = client.upsert("report", Spec.builder("stream:reports").schedule("@every 2h").build()).join();
     * System.out.println(one.generation() < two.generation()); // true
     * }</pre>
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @return a future of the timer
     */
    public CompletableFuture<Timer> upsert(String name, Spec spec) {
        return read(Timer.class, new Call("PUT", path("timers", name)).json(spec).repeat());
    }

    /**
     * Replaces one revision of a timer, and fails with {@link ConflictException} if it has another one. If its answer is lost, it is only
     * retried {@linkplain #withIdempotencyKey with a key}: a retry could not tell its own first try from the change of another client.
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @param ifRevision the revision that is replaced
     * @return a future of the timer
     */
    public CompletableFuture<Timer> upsert(String name, Spec spec, long ifRevision) {
        return read(Timer.class, replacement(name, spec, ifRevision));
    }

    private Call replacement(String name, Spec spec, long ifRevision) {
        return new Call("PUT", path("timers", name)).json(spec).header("If-Match", "\"" + ifRevision + "\"");
    }

    /**
     * Replaces an existing timer, and fails with {@link NotFoundException} instead of creating one.
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @return a future of the timer
     */
    public CompletableFuture<Timer> upsertExisting(String name, Spec spec) {
        return or(read(Timer.class, new Call("PUT", path("timers", name)).json(spec).header("If-Match", "*").repeat()), failure ->
            failure instanceof ConflictException conflict ? conflict.as("not_found", "there is no timer \"" + name + "\"") : failure);
    }

    /**
     * Reads a timer, changes its spec, and writes it back, again if another client changed it in between.
     *
     * <p>A new generation begins: intervals such as {@code @every 1h} begin with the update. Use {@link #reschedule(String, When)} to change
     * only when it fires.
     *
     * <pre>{@code
     * Timer slower = client.update("report", old -> old.toBuilder().schedule("@every 6h").build()).join();
     * System.out.println(slower.schedule()); // @every 6h
     * }</pre>
     *
     * @param name the name of the timer
     * @param change returns what it is changed to
     * @return a future of the timer
     */
    public CompletableFuture<Timer> update(String name, UnaryOperator<Spec> change) {
        CompletableFuture<Timer> written = Calls.then(get(name), timer -> {
            if (Boolean.TRUE.equals(timer.redacted())) {
                throw new RouseException(name + " cannot be updated: this client may not see its payload, and would remove it", null);
            }
            return read(Timer.class, replacement(name, change.apply(timer.spec()), timer.revision()).once());
        }, null);
        return Calls.then(written, CompletableFuture::completedFuture,
            failure -> failure instanceof ConflictException ? update(name, change) : CompletableFuture.failedFuture(failure));
    }

    /**
     * Changes members of the spec of a timer, and nothing else of it: once, also if it is retried. If when the timer is due stays,
     * intervals and delays go on as they are.
     *
     * <pre>{@code
     * Timer patched = client.patch("report", new Patch().set("labels", Map.of("team", "press")).remove("deadline")).join();
     * System.out.println(patched.labels() + " " + patched.schedule()); // {team=press} @every 6h
     * }</pre>
     *
     * @param name the name of the timer
     * @param patch the changes
     * @return a future of the timer
     */
    public CompletableFuture<Timer> patch(String name, Patch patch) {
        return read(Timer.class, patchCall(name, patch));
    }

    /**
     * Changes members of the spec of one revision of a timer, and fails with {@link ConflictException} if it has another one.
     *
     * @param name the name of the timer
     * @param patch the changes
     * @param ifRevision the revision that is changed
     * @return a future of the timer
     */
    public CompletableFuture<Timer> patch(String name, Patch patch, long ifRevision) {
        return read(Timer.class, patchCall(name, patch).header("If-Match", "\"" + ifRevision + "\""));
    }

    private Call patchCall(String name, Patch patch) {
        return new Call("PATCH", path("timers", name)).body("application/json", Json.bytes(patch.toString())).once();
    }

    /**
     * Creates up to 5,000 timers in one durable step, of which none exists. Each has an outcome; one with a {@code problem} was not created.
     *
     * <pre>{@code
     * Spec soon = Spec.builder("stream:x").schedule("@after 1h").build();
     * for (Created created : client.createBatch(List.of(new NewTimer("a", soon), new NewTimer("b", soon), new NewTimer("a", soon))).join()) {
     *     System.out.println(created.problem() == null ? "created" : created.problem().code());
     * }
     * // prints: created
     * // prints: created
     * // prints: already_exists
     * }</pre>
     *
     * @param timers names and specs
     * @return a future of what became of each, in their order
     */
    public CompletableFuture<List<Created>> createBatch(Collection<NewTimer> timers) {
        return createBatch(timers, CreateMode.CREATE_ONLY);
    }

    /**
     * Creates or replaces up to 5,000 timers in one durable step. It is retried in mode {@code CREATE_OR_REPLACE} with names for all, and
     * {@linkplain #withIdempotencyKey with a key}.
     *
     * @param timers names and specs
     * @param mode what becomes of names that exist
     * @return a future of what became of each, in their order
     */
    public CompletableFuture<List<Created>> createBatch(Collection<NewTimer> timers, CreateMode mode) {
        List<Object> list = new ArrayList<>();
        boolean named = true;
        for (NewTimer timer : timers) {
            Map<String, @Nullable Object> members = Wire.members(timer.spec());
            if (timer.name() != null) {
                members.put("name", timer.name());
            }
            named &= timer.name() != null;
            list.add(members);
        }
        Call call = new Call("POST", path("timers") + ":batchCreate").json(Map.of("mode", mode, "timers", list)).repeat(named && mode == CreateMode.CREATE_OR_REPLACE);
        return readList(Created.class, "created", call);
    }

    /**
     * Reads a timer, or fails with {@link NotFoundException}.
     *
     * <pre>{@code
     * System.out.println(client.get("report").join().due().isAfter(Instant.now())); // true
     * }</pre>
     *
     * @param name the name of the timer
     * @return a future of the timer
     */
    public CompletableFuture<Timer> get(String name) {
        return read(Timer.class, new Call("GET", path("timers", name)).repeat());
    }

    /**
     * Lists all timers of the namespace, by name. Pages are read as they are needed.
     *
     * @return the timers
     */
    public AsyncListing<Timer> list() {
        return list(Filter.builder().build());
    }

    /**
     * Lists the timers that match a filter, by name. Pages are read as they are needed.
     *
     * @param filter which timers
     * @return the timers
     */
    public AsyncListing<Timer> list(Filter filter) {
        return list(filter, ListOptions.builder().build());
    }

    /**
     * Lists the timers that match a filter. Pages are read as they are needed.
     *
     * <pre>{@code
     * Filter billing = Filter.builder().labels(Map.of("team", "billing")).build();
     * for (Timer timer : client.list(billing, ListOptions.builder().orderBy(ListOptions.OrderBy.DUE).build()).all().join()) {
     *     System.out.println(timer.name()); // invoice-17
     * }
     * }</pre>
     *
     * @param filter which timers
     * @param options their order, and how many a page has
     * @return the timers
     */
    public AsyncListing<Timer> list(Filter filter, ListOptions options) {
        return pages(Timer.class, "timers", path("timers"), filter, options);
    }

    /**
     * Counts the timers that match a filter.
     *
     * <pre>{@code
     * System.out.println(client.count(Filter.builder().prefix("invoice-").states(List.of(State.SCHEDULED, State.PAUSED)).build()).join()); // 1
     * }</pre>
     *
     * @param filter which timers
     * @return a future of how many there are
     */
    public CompletableFuture<Long> count(Filter filter) {
        Call call = new Call("GET", path("timers") + ":count" + Wire.query(Wire.members(filter))).repeat();
        return send(call, reply -> Wire.object(reply.text()).get("count") instanceof Number n ? n.longValue() : 0L);
    }

    /**
     * Deletes a timer, which cancels its fires: no attempt starts after the answer. {@code inFlight} means that one had started before.
     *
     * <p>If a retry finds no timer, an earlier try of this call deleted it; then the generation is 0.
     *
     * <pre>{@code
     * System.out.println(client.delete("hello").join().inFlight()); // false
     * }</pre>
     *
     * @param name the name of the timer
     * @return a future of what was deleted
     */
    public CompletableFuture<Deleted> delete(String name) {
        return delete(name, "");
    }

    /**
     * Deletes one revision of a timer, and fails with {@link ConflictException} if it has another one.
     *
     * @param name the name of the timer
     * @param ifRevision the revision that is deleted
     * @return a future of what was deleted
     */
    public CompletableFuture<Deleted> delete(String name, long ifRevision) {
        return delete(name, Wire.query(Map.of("expected_revision", ifRevision)));
    }

    private CompletableFuture<Deleted> delete(String name, String query) {
        return send(new Call("DELETE", path("timers", name) + query).deletes(), reply ->
            reply == Transport.Reply.GONE ? new Deleted(true, 0) : Wire.decode(Deleted.class, Wire.object(reply.text())));
    }

    /**
     * Stops a timer until {@link #resume(String)}.
     *
     * @param name the name of the timer
     * @return a future of the timer
     */
    public CompletableFuture<Timer> pause(String name) {
        return pause(name, null, null);
    }

    /**
     * Stops a timer until {@link #resume(String)}, or until a time.
     *
     * <pre>{@code
     * System.out.println(client.pause("report", "the printer is broken", null).join().state()); // paused
     * }</pre>
     *
     * @param name the name of the timer
     * @param reason for people, or null
     * @param until when the pause ends by itself, or null
     * @return a future of the timer
     */
    public CompletableFuture<Timer> pause(String name, @Nullable String reason, @Nullable Instant until) {
        return read(Timer.class, new Call("POST", path("timers", name) + ":pause").json(given("reason", reason, "until", until)).repeat());
    }

    /**
     * Ends a pause.
     *
     * <pre>{@code
     * System.out.println(client.resume("report").join().state()); // scheduled
     * }</pre>
     *
     * @param name the name of the timer
     * @return a future of the timer
     */
    public CompletableFuture<Timer> resume(String name) {
        return read(Timer.class, new Call("POST", path("timers", name) + ":resume").repeat());
    }

    /**
     * Fires now, in addition to the schedule: once, also if it is retried.
     *
     * <pre>{@code
     * client.upsert("hourly", Spec.builder("stream:x").schedule("0 * * * *").build()).join();
     * System.out.println(client.run("hourly").join().fireId().length()); // 26
     * }</pre>
     *
     * @param name the name of the timer
     * @return a future of the fire
     */
    public CompletableFuture<Ran> run(String name) {
        return read(Ran.class, new Call("POST", path("timers", name) + ":run").once());
    }

    /**
     * Skips the next occurrence.
     *
     * @param name the name of the timer
     * @return a future of the timer
     */
    public CompletableFuture<Timer> skip(String name) {
        return skip(name, 1, null);
    }

    /**
     * Skips the next occurrences: once, also if it is retried.
     *
     * <pre>{@code
     * Instant before = client.get("hourly").join().due();
     * System.out.println(client.skip("hourly", 2, "holidays").join().due().isAfter(before)); // true
     * }</pre>
     *
     * @param name the name of the timer
     * @param count how many
     * @param reason for people, or null
     * @return a future of the timer
     */
    public CompletableFuture<Timer> skip(String name, long count, @Nullable String reason) {
        return read(Timer.class, new Call("POST", path("timers", name) + ":skip").json(given("count", count, "reason", reason)).once());
    }

    /**
     * Replaces when a timer fires, and nothing else of it.
     *
     * <pre>{@code
     * When earlier = When.builder("30 6 * * mon-fri").timezone("Europe/Berlin").build();
     * System.out.println(client.reschedule("report", earlier).join().schedule()); // 30 6 * * mon-fri
     * }</pre>
     *
     * @param name the name of the timer
     * @param when its new schedule
     * @return a future of the timer
     */
    public CompletableFuture<Timer> reschedule(String name, When when) {
        return read(Timer.class, new Call("POST", path("timers", name) + ":reschedule").json(when).once());
    }

    /**
     * Replaces when one revision of a timer fires, and fails with {@link ConflictException} if it has another one.
     *
     * @param name the name of the timer
     * @param when its new schedule
     * @param ifRevision the revision that is changed
     * @return a future of the timer
     */
    public CompletableFuture<Timer> reschedule(String name, When when, long ifRevision) {
        Map<String, @Nullable Object> body = Wire.members(when);
        body.put("expected_revision", ifRevision);
        return read(Timer.class, new Call("POST", path("timers", name) + ":reschedule").json(body).once());
    }

    /**
     * Fires the past occurrences between two times, with their own fire ids: once, also if it is retried.
     *
     * <pre>{@code
     * Instant start = Instant.parse("2026-01-01T00:00:00Z");
     * System.out.println(client.backfill("hourly", start, start.plus(Duration.ofDays(1)), true).join().count()); // 24
     * }</pre>
     *
     * @param name the name of the timer
     * @param from the first time
     * @param until the time after the last one
     * @param dryRun nothing is fired
     * @return a future of the occurrences
     */
    public CompletableFuture<Backfilled> backfill(String name, Instant from, Instant until, boolean dryRun) {
        return read(Backfilled.class, new Call("POST", path("timers", name) + ":backfill").json(Map.of("from", from, "until", until, "dry_run", dryRun)).once());
    }

    /**
     * Does one thing to all timers that match a filter.
     *
     * @param action what is done
     * @param filter which timers: an empty one is all of the namespace
     * @return a future of how many were changed, when all is done
     */
    public CompletableFuture<BulkProgress> bulk(BulkAction action, Filter filter) {
        return bulk(action, filter, BulkOptions.builder().build());
    }

    /**
     * Does one thing to all timers that match a filter.
     *
     * <p>If the server stops before that is done, the exception has the {@code progress} until then, and the change goes on as its
     * {@code job}, as it does when the connection breaks. {@code GET /v1/namespaces/NS/jobs/ID} shows how far it is; {@code POST
     * /v1/namespaces/NS/jobs/ID:cancel} ends it, and what was changed stays changed.
     *
     * <pre>{@code
     * Filter invoices = Filter.builder().prefix("invoice-").build();
     * BulkOptions trial = BulkOptions.builder().reason("audit").dryRun(true).build();
     * System.out.println(client.bulk(BulkAction.PAUSE, invoices, trial).join().names()); // [invoice-17]
     * }</pre>
     *
     * @param action what is done
     * @param filter which timers: an empty one is all of the namespace
     * @param options how it is done
     * @return a future of how many were changed, when all is done
     */
    public CompletableFuture<BulkProgress> bulk(BulkAction action, Filter filter, BulkOptions options) {
        Map<String, @Nullable Object> body = Wire.members(options);
        body.put("action", action);
        body.put("filter", Wire.members(filter));
        Call call = new Call("POST", path("timers") + ":bulk").json(body).repeat(Boolean.TRUE.equals(options.dryRun()));
        return send(call.reports(), reply -> {
            List<BulkFailure> failures = new ArrayList<>();
            List<String> names = new ArrayList<>();
            BulkProgress last = new BulkProgress(0, 0, 0, List.of(), List.of(), List.of(), null, null, null);
            try {
                for (String line : reply.text().lines().filter(line -> !line.isEmpty()).toList()) {
                    last = Wire.decode(BulkProgress.class, Wire.object(line));
                    failures.addAll(last.failures());
                    names.addAll(last.names());
                }
            } catch (IllegalArgumentException | ClassCastException e) {
                // cut off
            }
            BulkProgress all = new BulkProgress(last.matched(), last.changed(), last.failed(), failures, names, last.targets(), last.done(), last.job(), last.problem());
            if (all.problem() != null) {
                throw ApiException.of(all.problem(), new ApiException.Details(null, all, null));
            }
            if (!Boolean.TRUE.equals(all.done())) {
                String goesOn = all.job() == null ? "" : ": the change goes on as job " + all.job();
                throw new ConnectionFailedException("the answer ended before the report that all is done" + goesOn, true, null);
            }
            return all;
        });
    }

    // When, and why

    /**
     * Returns the next five times of a schedule, and what it means in English.
     *
     * @param when a schedule
     * @return a future of its next times
     */
    public CompletableFuture<Next> preview(When when) {
        return preview(when, null, null, 5);
    }

    /**
     * Returns the next times of a schedule, and what it means in English.
     *
     * <pre>{@code
     * When when = When.builder("0 9 * * mon-fri").build();
     * System.out.println(client.preview(when, null, Instant.parse("2027-01-01T12:00:00Z"), 1).join().next()); // [2027-01-04T09:00:00Z]
     * }</pre>
     *
     * @param when a schedule
     * @param name of a timer, which decides about its jitter; or null
     * @param from the time after which they are; null: now
     * @param count how many
     * @return a future of its next times
     */
    public CompletableFuture<Next> preview(When when, @Nullable String name, @Nullable Instant from, long count) {
        Map<String, @Nullable Object> body = Wire.members(when);
        body.putAll(given("name", name, "from", from));
        body.put("count", count);
        return read(Next.class, new Call("POST", path("timers") + ":preview").json(body).repeat());
    }

    /**
     * Explains why a timer fired or did not fire, and what happens next; also of a timer that is gone.
     *
     * <pre>{@code
     * System.out.println(client.explain("report").join().reasons().get(0).code()); // scheduled
     * }</pre>
     *
     * @param name the name of the timer
     * @return a future of the explanation
     */
    public CompletableFuture<Explanation> explain(String name) {
        return explain(name, null);
    }

    /**
     * Explains why a timer fired or did not fire at a time.
     *
     * @param name the name of the timer
     * @param at the time; null: now
     * @return a future of the explanation
     */
    public CompletableFuture<Explanation> explain(String name, @Nullable Instant at) {
        return read(Explanation.class, new Call("GET", path("timers", name) + ":explain" + Wire.query(given("at", at, "", null))).repeat());
    }

    /**
     * Returns how a timer is in one word, and the path of its badge: a picture on the server that needs no credentials.
     *
     * <pre>{@code
     * System.out.println(client.badge("report").join().state()); // new
     * }</pre>
     *
     * @param name the name of the timer
     * @return a future of the badge
     */
    public CompletableFuture<Badge> badge(String name) {
        return read(Badge.class, new Call("GET", path("timers", name) + ":badge").repeat());
    }

    /**
     * Returns what will fire before a time.
     *
     * <pre>{@code
     * SimulateOptions hourly = SimulateOptions.builder().filter(Filter.builder().name("hourly").build()).limit(3).build();
     * System.out.println(client.simulate(Instant.now().plus(Duration.ofDays(2)), hourly).join().fires().size()); // 3
     * }</pre>
     *
     * @param until the time
     * @param options of which timers, from which time on, and how much
     * @return a future of what will fire
     */
    public CompletableFuture<Simulated> simulate(Instant until, SimulateOptions options) {
        Map<String, @Nullable Object> body = Wire.members(options);
        body.put("until", until);
        return read(Simulated.class, new Call("POST", path("timers") + ":simulate").json(body).repeat());
    }

    // What became of fires

    /**
     * Lists how occurrences ended, newest first: of one timer, or of the namespace.
     *
     * <pre>{@code
     * for (FireRecord record : client.records(RecordsOptions.builder().name("hourly").build()).all().join()) {
     *     System.out.println(record.ending() + " " + record.cause()); // skipped skipped_by_request
     * }
     * }</pre>
     *
     * @param options which records
     * @return the records
     */
    public AsyncListing<FireRecord> records(RecordsOptions options) {
        String path = options.name() == null ? path("records") : path("timers", options.name(), "records");
        Map<String, @Nullable Object> query = Wire.members(options);
        query.remove("name");
        return pages(FireRecord.class, "records", path, query);
    }

    /**
     * Sums up all records of the namespace by a property of theirs.
     *
     * @param by the property
     * @return a future of the groups
     */
    public CompletableFuture<RecordGroups> aggregate(GroupBy by) {
        return aggregate(by, AggregateOptions.builder().build());
    }

    /**
     * Sums up records by a property of theirs. With the {@code nextPageToken} of a result as {@code pageToken} it continues with older ones.
     *
     * <pre>{@code
     * RecordGroups sums = client.aggregate(GroupBy.ENDING, AggregateOptions.builder().prefix("hour").build()).join();
     * System.out.println(sums.groups().get(0).key() + " " + sums.groups().get(0).count()); // skipped 2
     * }</pre>
     *
     * @param by the property
     * @param options which records
     * @return a future of the groups
     */
    public CompletableFuture<RecordGroups> aggregate(GroupBy by, AggregateOptions options) {
        Map<String, @Nullable Object> query = Wire.members(options);
        query.put("by", by);
        return read(RecordGroups.class, new Call("GET", path("records") + ":aggregate" + Wire.query(query)).repeat());
    }

    /**
     * Returns the last endings of each of up to 100 timers.
     *
     * <pre>{@code
     * for (TimerOutcomes timer : client.outcomes(List.of("hourly", "report"), 30).join()) {
     *     System.out.println(timer.name() + " " + timer.outcomes().size());
     * }
     * // prints: hourly 1
     * // prints: report 0
     * }</pre>
     *
     * @param names the names of the timers
     * @param limit at most so many of each
     * @return a future of their endings, in the order of the names
     */
    public CompletableFuture<List<TimerOutcomes>> outcomes(Collection<String> names, long limit) {
        return readList(TimerOutcomes.class, "timers", new Call("POST", path("timers") + ":outcomes").json(Map.of("names", List.copyOf(names), "limit", limit)).repeat());
    }

    /**
     * Lists dead letters: fires that ran out of attempts. Each has the timer of that time, and its {@code fireId}.
     *
     * @return the dead letters
     */
    public AsyncListing<Timer> deadLetters() {
        return deadLetters(Filter.builder().build(), ListOptions.builder().build());
    }

    /**
     * Lists the dead letters that match a filter.
     *
     * <pre>{@code
     * System.out.println(client.deadLetters(Filter.builder().prefix("invoice-").build(), ListOptions.builder().build()).all().join()); // []
     * }</pre>
     *
     * @param filter which dead letters
     * @param options their order, and how many a page has
     * @return the dead letters
     */
    public AsyncListing<Timer> deadLetters(Filter filter, ListOptions options) {
        return pages(Timer.class, "timers", path("dead"), filter, options);
    }

    /**
     * Reads one dead letter.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @return a future of the dead letter
     */
    public CompletableFuture<Timer> deadLetter(String name, String fireId) {
        return read(Timer.class, new Call("GET", path("timers", name, "dead", fireId)).repeat());
    }

    /**
     * Gives a dead letter new attempts, with the same fire id: once, also if it is retried.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> redrive(String name, String fireId) {
        return done(new Call("POST", path("timers", name, "dead", fireId) + ":redrive").once());
    }

    /**
     * Deletes a dead letter.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> purge(String name, String fireId) {
        return done(new Call("DELETE", path("timers", name, "dead", fireId)).deletes());
    }

    // Fires of stream targets

    /**
     * Calls a handler with the fires of a stream target, until {@link Subscription#stop()}: it polls, extends the deadline of a fire for as
     * long as its handler runs, and reports what became of it.
     *
     * @param channel of the target {@code stream:CHANNEL}
     * @param handler begins the work of a fire
     * @param options which fires, and how many at a time
     * @return what stops it
     */
    public Subscription subscribe(String channel, AsyncHandler handler, SubscribeOptions options) {
        return subscription(channel, options, fire -> new Started(handler, fire));
    }

    Subscription subscription(String channel, SubscribeOptions options, Function<Fire, Subscription.Work> begin) {
        List<RouseAsyncClient> nodes = transport.bases.stream().map(base -> new RouseAsyncClient(transport.at(base), namespace, null)).toList();
        return new Subscription(this, nodes, channel, options, begin).start();
    }

    /** The work of an asynchronous handler. */
    private static final class Started implements Subscription.Work {
        private final CompletionStage<?> stage;
        private final CompletableFuture<@Nullable Object> result = new CompletableFuture<>();

        Started(AsyncHandler handler, Fire fire) {
            CompletionStage<?> begun;
            try {
                begun = handler.handle(fire);
            } catch (Throwable failure) { // errors, too: one bad fire does not end the others
                begun = CompletableFuture.failedFuture(failure);
            }
            stage = begun;
            stage.whenComplete((value, failure) -> {
                if (failure == null) {
                    result.complete(null);
                } else {
                    result.completeExceptionally(failure);
                }
            });
        }

        @Override
        public CompletableFuture<?> result() {
            return result;
        }

        @Override
        public void interrupt() {
            if (stage instanceof CompletableFuture<?> future) {
                future.cancel(true);
            }
        }
    }

    /**
     * Takes fires of a stream target, as soon as there are some.
     *
     * @param channel of the target {@code stream:CHANNEL}
     * @return a future of up to 16 fires; none if there are none for 30 seconds
     */
    public CompletableFuture<List<Fire>> poll(String channel) {
        return poll(PollOptions.builder().channel(channel).build());
    }

    /**
     * Takes fires of a stream target, as soon as there are some. The caller reports on each before its deadline: {@code complete},
     * {@code fail}, {@code heartbeat}, which extends the deadline, or {@code release}; {@code subscribe} does all of that. If the answer is
     * lost, the fires that it had come again after their deadline.
     *
     * <pre>{@code
     * client.create("letter", Spec.builder("stream:letters").schedule("@after 1ms").payload(Payload.of(Map.of("id", 7))).build()).join();
     * for (Fire fire : client.poll(PollOptions.builder().channel("letters").max(10).build()).join()) {
     *     client.complete(fire.name(), fire.fireId(), fire.token()).join();
     *     System.out.println(fire.name() + " " + fire.payload()); // letter {"id":7}
     * }
     * }</pre>
     *
     * @param options of which channel, and how many
     * @return a future of the fires; none if there are none in the time
     */
    public CompletableFuture<List<Fire>> poll(PollOptions options) {
        Duration wait = options.waitFor() == null ? WAIT : options.waitFor();
        return readList(Fire.class, "fires", new Call("POST", path("fires") + ":poll").json(options).repeat().waits(wait));
    }

    // Reports on fires that a receiver has answered with 202, or that a poll has taken

    /**
     * Reports that the work of a fire is done.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @param token its token
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> complete(String name, String fireId, long token) {
        return done(new Call("POST", path("timers", name, "fires", fireId) + ":complete").json(Map.of("token", token)).settles());
    }

    /**
     * Reports that the work of a fire has failed.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @param token its token
     * @param failure why, and whether another attempt can succeed
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> fail(String name, String fireId, long token, Failure failure) {
        Map<String, @Nullable Object> body = Wire.members(failure);
        body.put("token", token);
        return done(new Call("POST", path("timers", name, "fires", fireId) + ":fail").json(body).settles());
    }

    /**
     * Reports that the work of a fire goes on.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @param token its token
     * @param extend the time from now until the new deadline
     * @return a future of the new deadline
     */
    public CompletableFuture<Deadline> heartbeat(String name, String fireId, long token, Duration extend) {
        Map<String, Object> body = Map.of("token", token, "extend", extend);
        return read(Deadline.class, new Call("POST", path("timers", name, "fires", fireId) + ":heartbeat").json(body).repeat());
    }

    /**
     * Gives back a fire whose work was not begun: it comes again at once, and the attempt does not count.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @param token its token
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> release(String name, String fireId, long token) {
        return done(new Call("POST", path("timers", name, "fires", fireId) + ":release").json(Map.of("token", token)).settles());
    }

    // Calendars

    /**
     * Returns the calendars that the namespace has besides {@code weekends}, without their days.
     *
     * <pre>{@code
     * System.out.println(client.calendars().join().size()); // 0
     * }</pre>
     *
     * @return a future of the calendars
     */
    public CompletableFuture<List<Calendar>> calendars() {
        return readList(Calendar.class, "calendars", new Call("GET", path("calendars")).repeat());
    }

    /**
     * Reads a calendar with its days.
     *
     * @param name its name
     * @return a future of the calendar
     */
    public CompletableFuture<Calendar> calendar(String name) {
        return read(Calendar.class, new Call("GET", path("calendars", name)).repeat());
    }

    /**
     * Creates or replaces a calendar. Timers that use it move.
     *
     * <pre>{@code
     * client.putCalendar("holidays", List.of(new Day(LocalDate.of(2027, 12, 24), "Christmas Eve"))).join();
     * System.out.println(client.calendar("holidays").join().days().get(0).text()); // Christmas Eve
     * }</pre>
     *
     * @param name its name
     * @param days its days
     * @return a future of what has changed
     */
    public CompletableFuture<CalendarPut> putCalendar(String name, List<Day> days) {
        return read(CalendarPut.class, new Call("PUT", path("calendars", name)).json(Map.of("days", days)).repeat());
    }

    /**
     * Creates or replaces a calendar by the text of an iCalendar file. Timers that use it move.
     *
     * @param name its name
     * @param ical the text
     * @return a future of what has changed
     */
    public CompletableFuture<CalendarPut> putCalendar(String name, String ical) {
        return read(CalendarPut.class, new Call("PUT", path("calendars", name)).body("text/calendar", Json.bytes(ical)).repeat());
    }

    /**
     * Deletes a calendar that no timer uses.
     *
     * <pre>{@code
     * client.deleteCalendar("holidays").join();
     * }</pre>
     *
     * @param name its name
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> deleteCalendar(String name) {
        return done(new Call("DELETE", path("calendars", name)).deletes());
    }

    // Limits

    /**
     * Returns the limits of the namespace, in the order of their names, with how much of each is in use.
     *
     * <pre>{@code
     * System.out.println(client.limits().join().size()); // 0
     * }</pre>
     *
     * @return a future of the limits
     */
    public CompletableFuture<List<Limit>> limits() {
        return readList(Limit.class, "limits", new Call("GET", path("limits")).repeat());
    }

    /**
     * Reads a limit, with how much of it is in use.
     *
     * @param name its name
     * @return a future of the limit
     */
    public CompletableFuture<Limit> limit(String name) {
        return read(Limit.class, new Call("GET", path("limits", name)).repeat());
    }

    /**
     * Creates or replaces a limit, which timers name in {@code limit}. One that exists stays paused, and goes on to count per key.
     *
     * <pre>{@code
     * client.putLimit("payments", PutLimit.builder().concurrency(10).rate(LimitRate.builder(100, Duration.ofMinutes(1)).build()).build()).join();
     * System.out.println(client.limit("payments").join().rate().count()); // 100
     * }</pre>
     *
     * @param name its name
     * @param limit what it bounds
     * @return a future of the limit
     */
    public CompletableFuture<Limit> putLimit(String name, PutLimit limit) {
        return read(Limit.class, new Call("PUT", path("limits", name)).json(limit).repeat());
    }

    /**
     * Pauses a limit: no occurrence of its timers begins until {@link #resumeLimit(String)}.
     *
     * <pre>{@code
     * System.out.println(client.pauseLimit("payments").join().paused()); // true
     * }</pre>
     *
     * @param name its name
     * @return a future of the limit
     */
    public CompletableFuture<Limit> pauseLimit(String name) {
        return read(Limit.class, new Call("POST", path("limits", name) + ":pause").repeat());
    }

    /**
     * Ends the pause of a limit.
     *
     * <pre>{@code
     * System.out.println(client.resumeLimit("payments").join().paused()); // null
     * }</pre>
     *
     * @param name its name
     * @return a future of the limit
     */
    public CompletableFuture<Limit> resumeLimit(String name) {
        return read(Limit.class, new Call("POST", path("limits", name) + ":resume").repeat());
    }

    /**
     * Gives the rate of a limit its whole burst again, for each key.
     *
     * <pre>{@code
     * System.out.println(client.resetLimit("payments").join().reset() != null); // true
     * }</pre>
     *
     * @param name its name
     * @return a future of the limit
     */
    public CompletableFuture<Limit> resetLimit(String name) {
        return read(Limit.class, new Call("POST", path("limits", name) + ":reset").repeat());
    }

    /**
     * Deletes a limit. Its timers have none then: those that wait begin.
     *
     * <pre>{@code
     * client.deleteLimit("payments").join();
     * }</pre>
     *
     * @param name its name
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> deleteLimit(String name) {
        return done(new Call("DELETE", path("limits", name)).deletes());
    }

    // Pools

    /**
     * Sends a request to the workers of a key of a pool.
     *
     * @param pool the name of the pool
     * @param key the key
     * @param body the request
     * @return a future of the answer, or of {@link CallPending} if none came for 30 seconds
     */
    public CompletableFuture<CallResult> call(String pool, String key, byte[] body) {
        return call(pool, key, body, PoolCallOptions.builder().build());
    }

    /**
     * Sends a request to the workers of a key of a pool. With an id, the call is retried, because a second request with the same id is the
     * same request.
     *
     * @param pool the name of the pool
     * @param key the key
     * @param body the request
     * @param options how it is handled
     * @return a future of the answer, or of {@link CallPending} if none came in time
     */
    public CompletableFuture<CallResult> call(String pool, String key, byte[] body, PoolCallOptions options) {
        Map<String, @Nullable Object> query = Wire.members(options);
        query.remove("content_type");
        String type = options.contentType() == null ? "application/octet-stream" : options.contentType();
        Call call = new Call("POST", path("pools", pool, key) + ":call" + Wire.query(query)).body(type, body.clone())
            .repeat(options.id() != null).waits(options.waitFor() == null ? WAIT : options.waitFor());
        return send(call, RouseAsyncClient::answerOf);
    }

    /**
     * Returns the answer to a request that was sent before.
     *
     * @param id of the request
     * @return a future of the answer, or of {@link CallPending}
     */
    public CompletableFuture<CallResult> callAnswer(String id) {
        return callAnswer(id, Duration.ZERO);
    }

    /**
     * Returns the answer to a request that was sent before.
     *
     * @param id of the request
     * @param wait for how long the server waits for it
     * @return a future of the answer, or of {@link CallPending} if none came in time
     */
    public CompletableFuture<CallResult> callAnswer(String id, Duration wait) {
        Call call = new Call("GET", path("calls", id) + Wire.query(Map.of("wait", wait))).repeat().waits(wait);
        return send(call, RouseAsyncClient::answerOf);
    }

    private static CallResult answerOf(Transport.Reply reply) {
        String id = reply.header("Rouse-Call-Id");
        return reply.header("Rouse-Call-Status").equals("pending") ? new CallPending(id) : new CallAnswer(id, reply.body(), reply.header("Content-Type"));
    }

    // The server

    /**
     * Creates a namespace without quotas, or removes those that it has.
     *
     * @param name its name
     * @return a future of the namespace
     */
    public CompletableFuture<Namespace> putNamespace(String name) {
        return putNamespace(name, null);
    }

    /**
     * Creates a namespace, or replaces its quotas.
     *
     * <pre>{@code
     * Quotas quotas = Quotas.builder().timers(1000).createsPerSecond(50).build();
     * System.out.println(client.putNamespace("billing", quotas).join().quotas().timers()); // 1000
     * }</pre>
     *
     * @param name its name
     * @param quotas what it may have; null is unlimited
     * @return a future of the namespace
     */
    public CompletableFuture<Namespace> putNamespace(String name, @Nullable Quotas quotas) {
        return read(Namespace.class, new Call("PUT", Wire.path("namespaces", name)).json(given("quotas", quotas, "", null)).repeat());
    }

    /**
     * Reads a namespace that was created, with its usage and its rules of notices.
     *
     * <pre>{@code
     * System.out.println(client.getNamespace("billing").join().quotas().timers()); // 1000
     * }</pre>
     *
     * @param name its name
     * @return a future of the namespace
     */
    public CompletableFuture<Namespace> getNamespace(String name) {
        return read(Namespace.class, new Call("GET", Wire.path("namespaces", name)).repeat());
    }

    /**
     * Replaces the rules by which timers of a namespace that have no {@code notify} of their own tell of their failures; the first one whose
     * labels a timer has counts. It creates the namespace if there is none.
     *
     * <pre>{@code
     * NotifyRule rule = NotifyRule.builder("https://example.com/hook").labels(Map.of("team", "billing")).every(Duration.ofHours(1)).build();
     * System.out.println(client.putNotify("billing", List.of(rule)).join().notifyTarget().get(0).every()); // PT1H
     * }</pre>
     *
     * @param name the name of the namespace
     * @param rules all of them
     * @return a future of the namespace
     */
    public CompletableFuture<Namespace> putNotify(String name, List<NotifyRule> rules) {
        return read(Namespace.class, new Call("PUT", Wire.path("namespaces", name, "notify")).json(Map.of("rules", rules)).repeat());
    }

    /**
     * Replaces the rules of one revision of a namespace, and fails with {@link ConflictException} if it has another one. If its answer is
     * lost, it is not retried.
     *
     * @param name the name of the namespace
     * @param rules all of them
     * @param ifRevision the revision of the namespace
     * @return a future of the namespace
     */
    public CompletableFuture<Namespace> putNotify(String name, List<NotifyRule> rules, long ifRevision) {
        return read(Namespace.class, new Call("PUT", Wire.path("namespaces", name, "notify")).json(Map.of("rules", rules, "if_revision", ifRevision)));
    }

    /**
     * Deletes a namespace that has no timers.
     *
     * <pre>{@code
     * client.deleteNamespace("billing").join();
     * }</pre>
     *
     * @param name its name
     * @return a future that ends with the answer
     */
    public CompletableFuture<@Nullable Void> deleteNamespace(String name) {
        return done(new Call("DELETE", Wire.path("namespaces", name)).deletes());
    }

    /**
     * Returns the public keys that verify the callbacks of the namespace.
     *
     * <pre>{@code
     * System.out.println(client.signingKeys().join().get(0).publicKey().substring(0, 5)); // whpk_
     * }</pre>
     *
     * @return a future of the keys
     */
    public CompletableFuture<List<SigningKey>> signingKeys() {
        return readList(SigningKey.class, "keys", new Call("GET", path("signing-keys")).repeat());
    }

    /**
     * Returns the public keys and the secrets that verify the callbacks of the namespace. This needs the right to.
     *
     * @return a future of the keys
     */
    public CompletableFuture<List<SigningKey>> revealSigningKeys() {
        return readList(SigningKey.class, "keys", new Call("POST", path("signing-keys") + ":reveal").repeat());
    }

    /**
     * Returns the current time of the service.
     *
     * <pre>{@code
     * System.out.println(client.clock().join().virtual()); // true
     * }</pre>
     *
     * @return a future of its clock; that of a development server is virtual
     */
    public CompletableFuture<Clock> clock() {
        return read(Clock.class, new Call("GET", Wire.path("clock")).repeat());
    }

    /**
     * Moves the clock of a development server by a span of time, firing what comes due.
     *
     * <pre>{@code
     * Instant morning = client.clock().join().now();
     * System.out.println(client.advanceClock(Duration.ofHours(1)).join().now().isBefore(morning.plusSeconds(3600))); // false
     * }</pre>
     *
     * @param by the span
     * @return a future of the clock
     */
    public CompletableFuture<Clock> advanceClock(Duration by) {
        return advanceClock(AdvanceClock.builder().by(by).build());
    }

    /**
     * Moves the clock of a development server.
     *
     * @param move by a span of time or to a time; with {@code jump} as if the server had been down
     * @return a future of the clock
     */
    public CompletableFuture<Clock> advanceClock(AdvanceClock move) {
        return read(Clock.class, new Call("POST", Wire.path("clock") + ":advance").json(move).once());
    }

    /**
     * Returns which server answers.
     *
     * <pre>{@code
     * System.out.println(client.version().join().api()); // rouse.v1
     * }</pre>
     *
     * @return a future of its version
     */
    public CompletableFuture<Version> version() {
        return read(Version.class, new Call("GET", Wire.path("version")).repeat());
    }

    // How requests are sent

    private String path(String... parts) {
        String[] all = new String[parts.length + 2];
        all[0] = "namespaces";
        all[1] = namespace;
        System.arraycopy(parts, 0, all, 2, parts.length);
        return Wire.path(all);
    }

    /** Returns the members of a body that are given. */
    private static Map<String, @Nullable Object> given(String one, @Nullable Object value, String other, @Nullable Object second) {
        Map<String, @Nullable Object> out = new LinkedHashMap<>();
        if (value != null) {
            out.put(one, value);
        }
        if (second != null) {
            out.put(other, second);
        }
        return out;
    }

    /** Makes a call, and reads the answer. */
    private <T> CompletableFuture<T> send(Call call, Function<Transport.Reply, T> read) {
        return Calls.map(transport.send(call.keyed(key)), reply -> {
            try {
                return read.apply(reply);
            } catch (IllegalArgumentException | ClassCastException | NullPointerException e) { // of something in between, or of another server
                ApiException unexpected = Wire.unexpected(reply, null);
                unexpected.addSuppressed(e);
                throw unexpected;
            }
        });
    }

    private <T extends Record> CompletableFuture<T> read(Class<T> record, Call call) {
        return send(call, reply -> Wire.decode(record, Wire.object(reply.text())));
    }

    private <T extends Record> CompletableFuture<List<T>> readList(Class<T> record, String member, Call call) {
        return send(call, reply -> Wire.list(record, Wire.object(reply.text()).get(member)));
    }

    private CompletableFuture<@Nullable Void> done(Call call) {
        return send(call, reply -> null);
    }

    /** Returns a future that fails with another exception. */
    private static <T> CompletableFuture<T> or(CompletableFuture<T> future, UnaryOperator<Throwable> other) {
        return Calls.then(future, CompletableFuture::completedFuture, failure -> CompletableFuture.failedFuture(other.apply(failure)));
    }

    private <T extends Record> AsyncListing<T> pages(Class<T> record, String member, String path, Filter filter, ListOptions options) {
        Map<String, @Nullable Object> query = Wire.members(filter);
        query.putAll(Wire.members(options));
        return pages(record, member, path, query);
    }

    private <T extends Record> AsyncListing<T> pages(Class<T> record, String member, String path, Map<String, @Nullable Object> query) {
        return new AsyncListing<>(token -> {
            Map<String, @Nullable Object> page = new LinkedHashMap<>(query);
            if (!token.isEmpty()) {
                page.put("page_token", token);
            }
            return send(new Call("GET", path + Wire.query(page)).repeat(), reply -> {
                Map<String, @Nullable Object> answer = Wire.object(reply.text());
                return new AsyncListing.Rows<>(Wire.list(record, answer.get(member)), answer.get("next_page_token") instanceof String next ? next : "");
            });
        });
    }
}
