package io.github.rousehq.rouse;

import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.AdvanceClock;
import io.github.rousehq.rouse.model.AggregateOptions;
import io.github.rousehq.rouse.model.Backfilled;
import io.github.rousehq.rouse.model.Badge;
import io.github.rousehq.rouse.model.BulkAction;
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
 * Speaks the HTTP API of a rouse server. Its methods block, and throw {@link RouseException}s; {@link RouseAsyncClient} has the same methods,
 * which return futures. It may be used by several threads at a time. If a thread is interrupted during a call, it throws
 * {@link ConnectionFailedException}, and the thread stays interrupted.
 *
 * <pre>{@code
 * RouseClient client = RouseClient.builder().server(server).build(); // such as "127.0.0.1:7411"
 * Spec hello = Spec.builder("stream:greetings").schedule("@after 1h").payload(Payload.of(Map.of("to", "you"))).build();
 * System.out.println(client.create("hello", hello).state()); // scheduled
 * }</pre>
 */
public final class RouseClient implements AutoCloseable {
    private final RouseAsyncClient async;

    RouseClient(RouseAsyncClient async) {
        this.async = async;
    }

    /**
     * Returns a builder of clients, with settings of the environment.
     *
     * @return a builder, whose {@link ClientBuilder#build()} makes a client
     */
    public static ClientBuilder builder() {
        return new ClientBuilder();
    }

    /**
     * Returns a client whose methods return futures, and which shares the connections of this one.
     *
     * @return a client
     */
    public RouseAsyncClient async() {
        return async;
    }

    /**
     * Returns the namespace of the timers.
     *
     * @return its name
     */
    public String namespace() {
        return async.namespace();
    }

    /**
     * Returns a client for another namespace, which shares the connections of this one.
     *
     * <pre>{@code
     * System.out.println(client.within("billing").namespace()); // billing
     * }</pre>
     *
     * @param namespace its name
     * @return a client
     */
    public RouseClient within(String namespace) {
        return new RouseClient(async.within(namespace));
    }

    /**
     * Returns a client for one call, which the server carries out once: for a day, calls with one key, of different processes even, are the
     * same call. It shares the connections of this one. A timer without a name gets one that is made of the key.
     *
     * <pre>{@code
     * Spec order = Spec.builder("stream:orders").schedule("@after 1h").build();
     * Timer once = client.withIdempotencyKey("order-4711").create(order);
     * Timer again = client.withIdempotencyKey("order-4711").create(order);
     * System.out.println(once.name().equals(again.name())); // true
     * }</pre>
     *
     * @param key up to 256 printable ASCII characters, such as the number of an order
     * @return a client
     */
    public RouseClient withIdempotencyKey(String key) {
        return new RouseClient(async.withIdempotencyKey(key));
    }

    /** Closes the connections, when the calls in progress have ended: those of all clients that share them. */
    @Override
    public void close() {
        async.close();
    }

    /**
     * Calls a handler with the fires of a stream target, at most 16 at a time, until {@link Subscription#close()}.
     *
     * @param channel of the target {@code stream:CHANNEL}
     * @param handler does the work of a fire
     * @return what stops it
     */
    public Subscription subscribe(String channel, Handler handler) {
        return subscribe(channel, handler, SubscribeOptions.builder().build());
    }

    /**
     * Calls a handler with the fires of a stream target, until {@link Subscription#close()}: it polls, extends the deadline of a fire for as
     * long as its handler runs, and reports what became of it.
     *
     * <pre>{@code
     * CountDownLatch came = new CountDownLatch(1);
     * Subscription subscription = client.subscribe("parcels", fire -> {
     *     System.out.println(fire.name() + " " + fire.payload()); // parcel {"id":7}
     *     came.countDown();
     * }, SubscribeOptions.builder().concurrency(8).build());
     * client.create("parcel", Spec.builder("stream:parcels").schedule("@after 1ms").payload(Payload.of(Map.of("id", 7))).build());
     * came.await();
     * subscription.close(); // takes no more fires, and waits for the handlers
     * }</pre>
     *
     * @param channel of the target {@code stream:CHANNEL}
     * @param handler does the work of a fire
     * @param options which fires, and how many at a time
     * @return what stops it
     */
    public Subscription subscribe(String channel, Handler handler, SubscribeOptions options) {
        if (options.executor != null) {
            Executor executor = options.executor;
            return async.subscription(channel, options, fire -> Blocking.begin(handler, fire, executor));
        }
        AtomicInteger count = new AtomicInteger();
        ExecutorService threads = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "rouse-" + channel + "-" + count.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
        Subscription subscription = async.subscription(channel, options, fire -> Blocking.begin(handler, fire, threads));
        subscription.ended().whenComplete((result, failure) -> threads.shutdown());
        return subscription;
    }

    // Methods made of RouseAsyncClient.java by generate.py: do not edit.

    // Timers

    /**
     * Creates a timer. If the name exists, it fails with {@link AlreadyExistsException}.
     *
     * <p>The call is retried with one idempotency key, so a lost answer creates no second timer. With {@code debounce} or {@code throttle} in
     * place of a schedule, many calls for one name cause few fires; such a call is only retried {@linkplain #withIdempotencyKey with a key}.
     *
     * <pre>{@code
     * Spec spec = Spec.builder("stream:invoices").schedule("0 9 1 * *").timezone("Europe/Stockholm").labels(Map.of("team", "billing")).build();
     * System.out.println(client.create("invoice-17", spec).name()); // invoice-17
     * }</pre>
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @return the timer
     */
    public Timer create(String name, Spec spec) {
        return Calls.await(async.create(name, spec));
    }

    /**
     * Creates a timer, to which the server gives a name.
     *
     * @param spec when, what and where
     * @return the timer
     */
    public Timer create(Spec spec) {
        return Calls.await(async.create(spec));
    }

    /**
     * Creates a timer, or replaces the existing one, which begins a new generation.
     *
     * <pre>{@code
     * Timer one = client.upsert("report", Spec.builder("stream:reports").schedule("@every 1h").build());
     * Timer two = client.upsert("report", Spec.builder("stream:reports").schedule("@every 2h").build());
     * System.out.println(one.generation() < two.generation()); // true
     * }</pre>
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @return the timer
     */
    public Timer upsert(String name, Spec spec) {
        return Calls.await(async.upsert(name, spec));
    }

    /**
     * Replaces one revision of a timer, and fails with {@link ConflictException} if it has another one. If its answer is lost, it is only
     * retried {@linkplain #withIdempotencyKey with a key}: a retry could not tell its own first try from the change of another client.
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @param ifRevision the revision that is replaced
     * @return the timer
     */
    public Timer upsert(String name, Spec spec, long ifRevision) {
        return Calls.await(async.upsert(name, spec, ifRevision));
    }

    /**
     * Replaces an existing timer, and fails with {@link NotFoundException} instead of creating one.
     *
     * @param name the name of the timer
     * @param spec when, what and where
     * @return the timer
     */
    public Timer upsertExisting(String name, Spec spec) {
        return Calls.await(async.upsertExisting(name, spec));
    }

    /**
     * Reads a timer, changes its spec, and writes it back, again if another client changed it in between.
     *
     * <p>A new generation begins: intervals such as {@code @every 1h} begin with the update. Use {@link #reschedule(String, When)} to change
     * only when it fires.
     *
     * <pre>{@code
     * Timer slower = client.update("report", old -> old.toBuilder().schedule("@every 6h").build());
     * System.out.println(slower.schedule()); // @every 6h
     * }</pre>
     *
     * @param name the name of the timer
     * @param change returns what it is changed to
     * @return the timer
     */
    public Timer update(String name, UnaryOperator<Spec> change) {
        return Calls.await(async.update(name, change));
    }

    /**
     * Changes members of the spec of a timer, and nothing else of it: once, also if it is retried. If when the timer is due stays,
     * intervals and delays go on as they are.
     *
     * <pre>{@code
     * Timer patched = client.patch("report", new Patch().set("labels", Map.of("team", "press")).remove("deadline"));
     * System.out.println(patched.labels() + " " + patched.schedule()); // {team=press} @every 6h
     * }</pre>
     *
     * @param name the name of the timer
     * @param patch the changes
     * @return the timer
     */
    public Timer patch(String name, Patch patch) {
        return Calls.await(async.patch(name, patch));
    }

    /**
     * Changes members of the spec of one revision of a timer, and fails with {@link ConflictException} if it has another one.
     *
     * @param name the name of the timer
     * @param patch the changes
     * @param ifRevision the revision that is changed
     * @return the timer
     */
    public Timer patch(String name, Patch patch, long ifRevision) {
        return Calls.await(async.patch(name, patch, ifRevision));
    }

    /**
     * Creates up to 5,000 timers in one durable step, of which none exists. Each has an outcome; one with a {@code problem} was not created.
     *
     * <pre>{@code
     * Spec soon = Spec.builder("stream:x").schedule("@after 1h").build();
     * for (Created created : client.createBatch(List.of(new NewTimer("a", soon), new NewTimer("b", soon), new NewTimer("a", soon)))) {
     *     System.out.println(created.problem() == null ? "created" : created.problem().code());
     * }
     * // prints: created
     * // prints: created
     * // prints: already_exists
     * }</pre>
     *
     * @param timers names and specs
     * @return what became of each, in their order
     */
    public List<Created> createBatch(Collection<NewTimer> timers) {
        return Calls.await(async.createBatch(timers));
    }

    /**
     * Creates or replaces up to 5,000 timers in one durable step. It is retried in mode {@code CREATE_OR_REPLACE} with names for all, and
     * {@linkplain #withIdempotencyKey with a key}.
     *
     * @param timers names and specs
     * @param mode what becomes of names that exist
     * @return what became of each, in their order
     */
    public List<Created> createBatch(Collection<NewTimer> timers, CreateMode mode) {
        return Calls.await(async.createBatch(timers, mode));
    }

    /**
     * Reads a timer, or fails with {@link NotFoundException}.
     *
     * <pre>{@code
     * System.out.println(client.get("report").due().isAfter(Instant.now())); // true
     * }</pre>
     *
     * @param name the name of the timer
     * @return the timer
     */
    public Timer get(String name) {
        return Calls.await(async.get(name));
    }

    /**
     * Lists all timers of the namespace, by name. Pages are read as they are needed.
     *
     * @return the timers
     */
    public Listing<Timer> list() {
        return new Listing<>(async.list());
    }

    /**
     * Lists the timers that match a filter, by name. Pages are read as they are needed.
     *
     * @param filter which timers
     * @return the timers
     */
    public Listing<Timer> list(Filter filter) {
        return new Listing<>(async.list(filter));
    }

    /**
     * Lists the timers that match a filter. Pages are read as they are needed.
     *
     * <pre>{@code
     * Filter billing = Filter.builder().labels(Map.of("team", "billing")).build();
     * for (Timer timer : client.list(billing, ListOptions.builder().orderBy(ListOptions.OrderBy.DUE).build()).all()) {
     *     System.out.println(timer.name()); // invoice-17
     * }
     * }</pre>
     *
     * @param filter which timers
     * @param options their order, and how many a page has
     * @return the timers
     */
    public Listing<Timer> list(Filter filter, ListOptions options) {
        return new Listing<>(async.list(filter, options));
    }

    /**
     * Counts the timers that match a filter.
     *
     * <pre>{@code
     * System.out.println(client.count(Filter.builder().prefix("invoice-").states(List.of(State.SCHEDULED, State.PAUSED)).build())); // 1
     * }</pre>
     *
     * @param filter which timers
     * @return how many there are
     */
    public long count(Filter filter) {
        return Calls.await(async.count(filter));
    }

    /**
     * Deletes a timer, which cancels its fires: no attempt starts after the answer. {@code inFlight} means that one had started before.
     *
     * <p>If a retry finds no timer, an earlier try of this call deleted it; then the generation is 0.
     *
     * <pre>{@code
     * System.out.println(client.delete("hello").inFlight()); // false
     * }</pre>
     *
     * @param name the name of the timer
     * @return what was deleted
     */
    public Deleted delete(String name) {
        return Calls.await(async.delete(name));
    }

    /**
     * Deletes one revision of a timer, and fails with {@link ConflictException} if it has another one.
     *
     * @param name the name of the timer
     * @param ifRevision the revision that is deleted
     * @return what was deleted
     */
    public Deleted delete(String name, long ifRevision) {
        return Calls.await(async.delete(name, ifRevision));
    }

    /**
     * Stops a timer until {@link #resume(String)}.
     *
     * @param name the name of the timer
     * @return the timer
     */
    public Timer pause(String name) {
        return Calls.await(async.pause(name));
    }

    /**
     * Stops a timer until {@link #resume(String)}, or until a time.
     *
     * <pre>{@code
     * System.out.println(client.pause("report", "the printer is broken", null).state()); // paused
     * }</pre>
     *
     * @param name the name of the timer
     * @param reason for people, or null
     * @param until when the pause ends by itself, or null
     * @return the timer
     */
    public Timer pause(String name, @Nullable String reason, @Nullable Instant until) {
        return Calls.await(async.pause(name, reason, until));
    }

    /**
     * Ends a pause.
     *
     * <pre>{@code
     * System.out.println(client.resume("report").state()); // scheduled
     * }</pre>
     *
     * @param name the name of the timer
     * @return the timer
     */
    public Timer resume(String name) {
        return Calls.await(async.resume(name));
    }

    /**
     * Fires now, in addition to the schedule: once, also if it is retried.
     *
     * <pre>{@code
     * client.upsert("hourly", Spec.builder("stream:x").schedule("0 * * * *").build());
     * System.out.println(client.run("hourly").fireId().length()); // 26
     * }</pre>
     *
     * @param name the name of the timer
     * @return the fire
     */
    public Ran run(String name) {
        return Calls.await(async.run(name));
    }

    /**
     * Skips the next occurrence.
     *
     * @param name the name of the timer
     * @return the timer
     */
    public Timer skip(String name) {
        return Calls.await(async.skip(name));
    }

    /**
     * Skips the next occurrences: once, also if it is retried.
     *
     * <pre>{@code
     * Instant before = client.get("hourly").due();
     * System.out.println(client.skip("hourly", 2, "holidays").due().isAfter(before)); // true
     * }</pre>
     *
     * @param name the name of the timer
     * @param count how many
     * @param reason for people, or null
     * @return the timer
     */
    public Timer skip(String name, long count, @Nullable String reason) {
        return Calls.await(async.skip(name, count, reason));
    }

    /**
     * Replaces when a timer fires, and nothing else of it.
     *
     * <pre>{@code
     * When earlier = When.builder("30 6 * * mon-fri").timezone("Europe/Berlin").build();
     * System.out.println(client.reschedule("report", earlier).schedule()); // 30 6 * * mon-fri
     * }</pre>
     *
     * @param name the name of the timer
     * @param when its new schedule
     * @return the timer
     */
    public Timer reschedule(String name, When when) {
        return Calls.await(async.reschedule(name, when));
    }

    /**
     * Replaces when one revision of a timer fires, and fails with {@link ConflictException} if it has another one.
     *
     * @param name the name of the timer
     * @param when its new schedule
     * @param ifRevision the revision that is changed
     * @return the timer
     */
    public Timer reschedule(String name, When when, long ifRevision) {
        return Calls.await(async.reschedule(name, when, ifRevision));
    }

    /**
     * Fires the past occurrences between two times, with their own fire ids: once, also if it is retried.
     *
     * <pre>{@code
     * Instant start = Instant.parse("2026-01-01T00:00:00Z");
     * System.out.println(client.backfill("hourly", start, start.plus(Duration.ofDays(1)), true).count()); // 24
     * }</pre>
     *
     * @param name the name of the timer
     * @param from the first time
     * @param until the time after the last one
     * @param dryRun nothing is fired
     * @return the occurrences
     */
    public Backfilled backfill(String name, Instant from, Instant until, boolean dryRun) {
        return Calls.await(async.backfill(name, from, until, dryRun));
    }

    /**
     * Does one thing to all timers that match a filter.
     *
     * @param action what is done
     * @param filter which timers: an empty one is all of the namespace
     * @return how many were changed, when all is done
     */
    public BulkProgress bulk(BulkAction action, Filter filter) {
        return Calls.await(async.bulk(action, filter));
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
     * System.out.println(client.bulk(BulkAction.PAUSE, invoices, trial).names()); // [invoice-17]
     * }</pre>
     *
     * @param action what is done
     * @param filter which timers: an empty one is all of the namespace
     * @param options how it is done
     * @return how many were changed, when all is done
     */
    public BulkProgress bulk(BulkAction action, Filter filter, BulkOptions options) {
        return Calls.await(async.bulk(action, filter, options));
    }

    // When, and why

    /**
     * Returns the next five times of a schedule, and what it means in English.
     *
     * @param when a schedule
     * @return its next times
     */
    public Next preview(When when) {
        return Calls.await(async.preview(when));
    }

    /**
     * Returns the next times of a schedule, and what it means in English.
     *
     * <pre>{@code
     * When when = When.builder("0 9 * * mon-fri").build();
     * System.out.println(client.preview(when, null, Instant.parse("2027-01-01T12:00:00Z"), 1).next()); // [2027-01-04T09:00:00Z]
     * }</pre>
     *
     * @param when a schedule
     * @param name of a timer, which decides about its jitter; or null
     * @param from the time after which they are; null: now
     * @param count how many
     * @return its next times
     */
    public Next preview(When when, @Nullable String name, @Nullable Instant from, long count) {
        return Calls.await(async.preview(when, name, from, count));
    }

    /**
     * Explains why a timer fired or did not fire, and what happens next; also of a timer that is gone.
     *
     * <pre>{@code
     * System.out.println(client.explain("report").reasons().get(0).code()); // scheduled
     * }</pre>
     *
     * @param name the name of the timer
     * @return the explanation
     */
    public Explanation explain(String name) {
        return Calls.await(async.explain(name));
    }

    /**
     * Explains why a timer fired or did not fire at a time.
     *
     * @param name the name of the timer
     * @param at the time; null: now
     * @return the explanation
     */
    public Explanation explain(String name, @Nullable Instant at) {
        return Calls.await(async.explain(name, at));
    }

    /**
     * Returns how a timer is in one word, and the path of its badge: a picture on the server that needs no credentials.
     *
     * <pre>{@code
     * System.out.println(client.badge("report").state()); // new
     * }</pre>
     *
     * @param name the name of the timer
     * @return the badge
     */
    public Badge badge(String name) {
        return Calls.await(async.badge(name));
    }

    /**
     * Returns what will fire before a time.
     *
     * <pre>{@code
     * SimulateOptions hourly = SimulateOptions.builder().filter(Filter.builder().name("hourly").build()).limit(3).build();
     * System.out.println(client.simulate(Instant.now().plus(Duration.ofDays(2)), hourly).fires().size()); // 3
     * }</pre>
     *
     * @param until the time
     * @param options of which timers, from which time on, and how much
     * @return what will fire
     */
    public Simulated simulate(Instant until, SimulateOptions options) {
        return Calls.await(async.simulate(until, options));
    }

    // What became of fires

    /**
     * Lists how occurrences ended, newest first: of one timer, or of the namespace.
     *
     * <pre>{@code
     * for (FireRecord record : client.records(RecordsOptions.builder().name("hourly").build()).all()) {
     *     System.out.println(record.ending() + " " + record.cause()); // skipped skipped_by_request
     * }
     * }</pre>
     *
     * @param options which records
     * @return the records
     */
    public Listing<FireRecord> records(RecordsOptions options) {
        return new Listing<>(async.records(options));
    }

    /**
     * Sums up all records of the namespace by a property of theirs.
     *
     * @param by the property
     * @return the groups
     */
    public RecordGroups aggregate(GroupBy by) {
        return Calls.await(async.aggregate(by));
    }

    /**
     * Sums up records by a property of theirs. With the {@code nextPageToken} of a result as {@code pageToken} it continues with older ones.
     *
     * <pre>{@code
     * RecordGroups sums = client.aggregate(GroupBy.ENDING, AggregateOptions.builder().prefix("hour").build());
     * System.out.println(sums.groups().get(0).key() + " " + sums.groups().get(0).count()); // skipped 2
     * }</pre>
     *
     * @param by the property
     * @param options which records
     * @return the groups
     */
    public RecordGroups aggregate(GroupBy by, AggregateOptions options) {
        return Calls.await(async.aggregate(by, options));
    }

    /**
     * Returns the last endings of each of up to 100 timers.
     *
     * <pre>{@code
     * for (TimerOutcomes timer : client.outcomes(List.of("hourly", "report"), 30)) {
     *     System.out.println(timer.name() + " " + timer.outcomes().size());
     * }
     * // prints: hourly 1
     * // prints: report 0
     * }</pre>
     *
     * @param names the names of the timers
     * @param limit at most so many of each
     * @return their endings, in the order of the names
     */
    public List<TimerOutcomes> outcomes(Collection<String> names, long limit) {
        return Calls.await(async.outcomes(names, limit));
    }

    /**
     * Lists dead letters: fires that ran out of attempts. Each has the timer of that time, and its {@code fireId}.
     *
     * @return the dead letters
     */
    public Listing<Timer> deadLetters() {
        return new Listing<>(async.deadLetters());
    }

    /**
     * Lists the dead letters that match a filter.
     *
     * <pre>{@code
     * System.out.println(client.deadLetters(Filter.builder().prefix("invoice-").build(), ListOptions.builder().build()).all()); // []
     * }</pre>
     *
     * @param filter which dead letters
     * @param options their order, and how many a page has
     * @return the dead letters
     */
    public Listing<Timer> deadLetters(Filter filter, ListOptions options) {
        return new Listing<>(async.deadLetters(filter, options));
    }

    /**
     * Reads one dead letter.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @return the dead letter
     */
    public Timer deadLetter(String name, String fireId) {
        return Calls.await(async.deadLetter(name, fireId));
    }

    /**
     * Gives a dead letter new attempts, with the same fire id: once, also if it is retried.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @return a future that ends with the answer
     */
    public @Nullable Void redrive(String name, String fireId) {
        return Calls.await(async.redrive(name, fireId));
    }

    /**
     * Deletes a dead letter.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @return a future that ends with the answer
     */
    public @Nullable Void purge(String name, String fireId) {
        return Calls.await(async.purge(name, fireId));
    }

    // Fires of stream targets

    /**
     * Takes fires of a stream target, as soon as there are some.
     *
     * @param channel of the target {@code stream:CHANNEL}
     * @return up to 16 fires; none if there are none for 30 seconds
     */
    public List<Fire> poll(String channel) {
        return Calls.await(async.poll(channel));
    }

    /**
     * Takes fires of a stream target, as soon as there are some. The caller reports on each before its deadline: {@code complete},
     * {@code fail}, {@code heartbeat}, which extends the deadline, or {@code release}; {@code subscribe} does all of that. If the answer is
     * lost, the fires that it had come again after their deadline.
     *
     * <pre>{@code
     * client.create("letter", Spec.builder("stream:letters").schedule("@after 1ms").payload(Payload.of(Map.of("id", 7))).build());
     * for (Fire fire : client.poll(PollOptions.builder().channel("letters").max(10).build())) {
     *     client.complete(fire.name(), fire.fireId(), fire.token());
     *     System.out.println(fire.name() + " " + fire.payload()); // letter {"id":7}
     * }
     * }</pre>
     *
     * @param options of which channel, and how many
     * @return the fires; none if there are none in the time
     */
    public List<Fire> poll(PollOptions options) {
        return Calls.await(async.poll(options));
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
    public @Nullable Void complete(String name, String fireId, long token) {
        return Calls.await(async.complete(name, fireId, token));
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
    public @Nullable Void fail(String name, String fireId, long token, Failure failure) {
        return Calls.await(async.fail(name, fireId, token, failure));
    }

    /**
     * Reports that the work of a fire goes on.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @param token its token
     * @param extend the time from now until the new deadline
     * @return the new deadline
     */
    public Deadline heartbeat(String name, String fireId, long token, Duration extend) {
        return Calls.await(async.heartbeat(name, fireId, token, extend));
    }

    /**
     * Gives back a fire whose work was not begun: it comes again at once, and the attempt does not count.
     *
     * @param name the name of its timer
     * @param fireId its fire id
     * @param token its token
     * @return a future that ends with the answer
     */
    public @Nullable Void release(String name, String fireId, long token) {
        return Calls.await(async.release(name, fireId, token));
    }

    // Calendars

    /**
     * Returns the calendars that the namespace has besides {@code weekends}, without their days.
     *
     * <pre>{@code
     * System.out.println(client.calendars().size()); // 0
     * }</pre>
     *
     * @return the calendars
     */
    public List<Calendar> calendars() {
        return Calls.await(async.calendars());
    }

    /**
     * Reads a calendar with its days.
     *
     * @param name its name
     * @return the calendar
     */
    public Calendar calendar(String name) {
        return Calls.await(async.calendar(name));
    }

    /**
     * Creates or replaces a calendar. Timers that use it move.
     *
     * <pre>{@code
     * client.putCalendar("holidays", List.of(new Day(LocalDate.of(2027, 12, 24), "Christmas Eve")));
     * System.out.println(client.calendar("holidays").days().get(0).text()); // Christmas Eve
     * }</pre>
     *
     * @param name its name
     * @param days its days
     * @return what has changed
     */
    public CalendarPut putCalendar(String name, List<Day> days) {
        return Calls.await(async.putCalendar(name, days));
    }

    /**
     * Creates or replaces a calendar by the text of an iCalendar file. Timers that use it move.
     *
     * @param name its name
     * @param ical the text
     * @return what has changed
     */
    public CalendarPut putCalendar(String name, String ical) {
        return Calls.await(async.putCalendar(name, ical));
    }

    /**
     * Deletes a calendar that no timer uses.
     *
     * <pre>{@code
     * client.deleteCalendar("holidays");
     * }</pre>
     *
     * @param name its name
     * @return a future that ends with the answer
     */
    public @Nullable Void deleteCalendar(String name) {
        return Calls.await(async.deleteCalendar(name));
    }

    // Limits

    /**
     * Returns the limits of the namespace, in the order of their names, with how much of each is in use.
     *
     * <pre>{@code
     * System.out.println(client.limits().size()); // 0
     * }</pre>
     *
     * @return the limits
     */
    public List<Limit> limits() {
        return Calls.await(async.limits());
    }

    /**
     * Reads a limit, with how much of it is in use.
     *
     * @param name its name
     * @return the limit
     */
    public Limit limit(String name) {
        return Calls.await(async.limit(name));
    }

    /**
     * Creates or replaces a limit, which timers name in {@code limit}. One that exists stays paused, and goes on to count per key.
     *
     * <pre>{@code
     * client.putLimit("payments", PutLimit.builder().concurrency(10).rate(LimitRate.builder(100, Duration.ofMinutes(1)).build()).build());
     * System.out.println(client.limit("payments").rate().count()); // 100
     * }</pre>
     *
     * @param name its name
     * @param limit what it bounds
     * @return the limit
     */
    public Limit putLimit(String name, PutLimit limit) {
        return Calls.await(async.putLimit(name, limit));
    }

    /**
     * Pauses a limit: no occurrence of its timers begins until {@link #resumeLimit(String)}.
     *
     * <pre>{@code
     * System.out.println(client.pauseLimit("payments").paused()); // true
     * }</pre>
     *
     * @param name its name
     * @return the limit
     */
    public Limit pauseLimit(String name) {
        return Calls.await(async.pauseLimit(name));
    }

    /**
     * Ends the pause of a limit.
     *
     * <pre>{@code
     * System.out.println(client.resumeLimit("payments").paused()); // null
     * }</pre>
     *
     * @param name its name
     * @return the limit
     */
    public Limit resumeLimit(String name) {
        return Calls.await(async.resumeLimit(name));
    }

    /**
     * Gives the rate of a limit its whole burst again, for each key.
     *
     * <pre>{@code
     * System.out.println(client.resetLimit("payments").reset() != null); // true
     * }</pre>
     *
     * @param name its name
     * @return the limit
     */
    public Limit resetLimit(String name) {
        return Calls.await(async.resetLimit(name));
    }

    /**
     * Deletes a limit. Its timers have none then: those that wait begin.
     *
     * <pre>{@code
     * client.deleteLimit("payments");
     * }</pre>
     *
     * @param name its name
     * @return a future that ends with the answer
     */
    public @Nullable Void deleteLimit(String name) {
        return Calls.await(async.deleteLimit(name));
    }

    // Pools

    /**
     * Sends a request to the workers of a key of a pool.
     *
     * @param pool the name of the pool
     * @param key the key
     * @param body the request
     * @return the answer, or of {@link CallPending} if none came for 30 seconds
     */
    public CallResult call(String pool, String key, byte[] body) {
        return Calls.await(async.call(pool, key, body));
    }

    /**
     * Sends a request to the workers of a key of a pool. With an id, the call is retried, because a second request with the same id is the
     * same request.
     *
     * @param pool the name of the pool
     * @param key the key
     * @param body the request
     * @param options how it is handled
     * @return the answer, or of {@link CallPending} if none came in time
     */
    public CallResult call(String pool, String key, byte[] body, PoolCallOptions options) {
        return Calls.await(async.call(pool, key, body, options));
    }

    /**
     * Returns the answer to a request that was sent before.
     *
     * @param id of the request
     * @return the answer, or of {@link CallPending}
     */
    public CallResult callAnswer(String id) {
        return Calls.await(async.callAnswer(id));
    }

    /**
     * Returns the answer to a request that was sent before.
     *
     * @param id of the request
     * @param wait for how long the server waits for it
     * @return the answer, or of {@link CallPending} if none came in time
     */
    public CallResult callAnswer(String id, Duration wait) {
        return Calls.await(async.callAnswer(id, wait));
    }

    // The server

    /**
     * Creates a namespace without quotas, or removes those that it has.
     *
     * @param name its name
     * @return the namespace
     */
    public Namespace putNamespace(String name) {
        return Calls.await(async.putNamespace(name));
    }

    /**
     * Creates a namespace, or replaces its quotas.
     *
     * <pre>{@code
     * Quotas quotas = Quotas.builder().timers(1000).createsPerSecond(50).build();
     * System.out.println(client.putNamespace("billing", quotas).quotas().timers()); // 1000
     * }</pre>
     *
     * @param name its name
     * @param quotas what it may have; null is unlimited
     * @return the namespace
     */
    public Namespace putNamespace(String name, @Nullable Quotas quotas) {
        return Calls.await(async.putNamespace(name, quotas));
    }

    /**
     * Reads a namespace that was created, with its usage and its rules of notices.
     *
     * <pre>{@code
     * System.out.println(client.getNamespace("billing").quotas().timers()); // 1000
     * }</pre>
     *
     * @param name its name
     * @return the namespace
     */
    public Namespace getNamespace(String name) {
        return Calls.await(async.getNamespace(name));
    }

    /**
     * Replaces the rules by which timers of a namespace that have no {@code notify} of their own tell of their failures; the first one whose
     * labels a timer has counts. It creates the namespace if there is none.
     *
     * <pre>{@code
     * NotifyRule rule = NotifyRule.builder("https://example.com/hook").labels(Map.of("team", "billing")).every(Duration.ofHours(1)).build();
     * System.out.println(client.putNotify("billing", List.of(rule)).notifyTarget().get(0).every()); // PT1H
     * }</pre>
     *
     * @param name the name of the namespace
     * @param rules all of them
     * @return the namespace
     */
    public Namespace putNotify(String name, List<NotifyRule> rules) {
        return Calls.await(async.putNotify(name, rules));
    }

    /**
     * Replaces the rules of one revision of a namespace, and fails with {@link ConflictException} if it has another one. If its answer is
     * lost, it is not retried.
     *
     * @param name the name of the namespace
     * @param rules all of them
     * @param ifRevision the revision of the namespace
     * @return the namespace
     */
    public Namespace putNotify(String name, List<NotifyRule> rules, long ifRevision) {
        return Calls.await(async.putNotify(name, rules, ifRevision));
    }

    /**
     * Deletes a namespace that has no timers.
     *
     * <pre>{@code
     * client.deleteNamespace("billing");
     * }</pre>
     *
     * @param name its name
     * @return a future that ends with the answer
     */
    public @Nullable Void deleteNamespace(String name) {
        return Calls.await(async.deleteNamespace(name));
    }

    /**
     * Returns the public keys that verify the callbacks of the namespace.
     *
     * <pre>{@code
     * System.out.println(client.signingKeys().get(0).publicKey().substring(0, 5)); // whpk_
     * }</pre>
     *
     * @return the keys
     */
    public List<SigningKey> signingKeys() {
        return Calls.await(async.signingKeys());
    }

    /**
     * Returns the public keys and the secrets that verify the callbacks of the namespace. This needs the right to.
     *
     * @return the keys
     */
    public List<SigningKey> revealSigningKeys() {
        return Calls.await(async.revealSigningKeys());
    }

    /**
     * Returns the current time of the service.
     *
     * <pre>{@code
     * System.out.println(client.clock().virtual()); // true
     * }</pre>
     *
     * @return its clock; that of a development server is virtual
     */
    public Clock clock() {
        return Calls.await(async.clock());
    }

    /**
     * Moves the clock of a development server by a span of time, firing what comes due.
     *
     * <pre>{@code
     * Instant morning = client.clock().now();
     * System.out.println(client.advanceClock(Duration.ofHours(1)).now().isBefore(morning.plusSeconds(3600))); // false
     * }</pre>
     *
     * @param by the span
     * @return the clock
     */
    public Clock advanceClock(Duration by) {
        return Calls.await(async.advanceClock(by));
    }

    /**
     * Moves the clock of a development server.
     *
     * @param move by a span of time or to a time; with {@code jump} as if the server had been down
     * @return the clock
     */
    public Clock advanceClock(AdvanceClock move) {
        return Calls.await(async.advanceClock(move));
    }

    /**
     * Returns which server answers.
     *
     * <pre>{@code
     * System.out.println(client.version().api()); // rouse.v1
     * }</pre>
     *
     * @return its version
     */
    public Version version() {
        return Calls.await(async.version());
    }

    // End of what is made of RouseAsyncClient.java.
}
