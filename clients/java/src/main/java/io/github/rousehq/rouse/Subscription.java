package io.github.rousehq.rouse;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.Failure;
import io.github.rousehq.rouse.model.Fire;
import io.github.rousehq.rouse.model.PollOptions;

/**
 * Calls a handler with the fires of a channel: {@link RouseClient#subscribe(String, Handler)} makes it. It polls every node that the client's
 * {@code server} names, extends the deadline of a fire for as long as its handler runs, and reports what became of it.
 */
public final class Subscription implements AutoCloseable {
    private static final Duration PAUSE = Duration.ofSeconds(1); // after a failure that may pass
    private static final int MOST = 256; // of one poll

    private final RouseAsyncClient client;
    private final Function<Fire, Work> begin;
    private final SubscribeOptions options;
    private final PollOptions poll;
    private final CompletableFuture<@Nullable Void> ended = new CompletableFuture<>();
    private final List<Node> nodes = new ArrayList<>();

    // Guarded by this.
    private final Set<Task> tasks = new HashSet<>();
    private boolean stopping;
    private boolean drained; // the handlers have had their time
    private @Nullable Throwable refusal;

    /** The work of a fire that has begun. */
    interface Work {
        /** Returns what ends when the work has ended, as the work did. */
        CompletableFuture<?> result();

        /** Asks the work to end. */
        void interrupt();
    }

    Subscription(RouseAsyncClient client, List<RouseAsyncClient> nodes, String channel, SubscribeOptions options, Function<Fire, Work> begin) {
        this.client = client;
        this.begin = begin;
        this.options = options;
        PollOptions.Builder poll = PollOptions.builder().channel(channel).labels(options.labels);
        this.poll = (options.namePrefix == null ? poll : poll.namePrefix(options.namePrefix)).build();
        for (RouseAsyncClient node : nodes) {
            this.nodes.add(new Node(node));
        }
    }

    Subscription start() {
        nodes.forEach(Node::next);
        return this;
    }

    /**
     * Returns a future that completes when the subscription was stopped and its handlers have ended. It fails if the server refuses the polls
     * for good, such as with {@link ForbiddenException}.
     *
     * @return a copy: cancelling it has no effect
     */
    public CompletableFuture<@Nullable Void> ended() {
        return ended.copy();
    }

    /**
     * Takes no more fires, lets the handlers end, and reports on their fires.
     *
     * @return a future that completes, or fails, as {@link #ended()} does
     */
    public CompletableFuture<@Nullable Void> stop() {
        boolean first;
        synchronized (this) {
            first = !stopping || refusal != null;
            stopping = true;
        }
        if (first) {
            CompletableFuture<Void> late = Transport.Clock.after(options.drain, this::interrupt);
            ended.whenComplete((result, failure) -> late.cancel(false));
        }
        endPolls();
        return ended();
    }

    /** Stops the subscription, and waits until its handlers have ended and have been reported. */
    @Override
    public void close() {
        Calls.await(stop());
    }

    private void endPolls() {
        nodes.forEach(Node::end);
        endIfDone();
    }

    private void interrupt() {
        List<Task> running;
        synchronized (this) {
            drained = true;
            running = List.copyOf(tasks);
        }
        running.forEach(task -> task.interrupt(new CancellationException("the subscription stops")));
    }

    private void endIfDone() {
        Throwable failure;
        synchronized (this) {
            if (!stopping || !tasks.isEmpty() || nodes.stream().anyMatch(node -> node.polling)) {
                return;
            }
            failure = refusal;
        }
        if (failure == null) {
            ended.complete(null);
        } else {
            ended.completeExceptionally(failure);
        }
    }

    private void lost(Throwable error) {
        try {
            options.lost.accept(error);
        } catch (RuntimeException mistake) { // it must not end the subscription
            Thread current = Thread.currentThread();
            current.getUncaughtExceptionHandler().uncaughtException(current, mistake);
        }
    }

    /** Polls one node while there is room for its fires. */
    private final class Node {
        private final RouseAsyncClient node;
        // Guarded by the subscription.
        private int running;
        private boolean polling; // or it pauses, or fires are released
        private @Nullable CompletableFuture<?> request;

        Node(RouseAsyncClient node) {
            this.node = node;
        }

        void next() {
            CompletableFuture<List<Fire>> fires;
            synchronized (Subscription.this) {
                if (stopping || polling || running >= options.concurrency) {
                    return;
                }
                polling = true;
                fires = node.poll(poll.toBuilder().max(Math.min(options.concurrency - running, MOST)).build());
                request = fires;
            }
            fires.whenComplete((taken, failure) -> {
                if (failure == null) {
                    took(taken);
                } else {
                    failed(Calls.cause(failure));
                }
            });
        }

        /** Ends a poll, or the pause before the next one. */
        void end() {
            CompletableFuture<?> waits;
            synchronized (Subscription.this) {
                waits = request;
            }
            if (waits != null) {
                waits.cancel(true);
            }
        }

        private void took(List<Fire> fires) {
            List<Task> begun = new ArrayList<>();
            synchronized (Subscription.this) {
                request = null;
                if (!stopping) {
                    polling = false;
                    for (Fire fire : fires) {
                        begun.add(new Task(this, fire));
                    }
                    tasks.addAll(begun);
                    running += begun.size();
                }
            }
            if (!begun.isEmpty()) {
                // Deadlines are of the clock of the service, which may differ from that of this machine.
                CompletableFuture<Instant> now = client.clock().handle((clock, failure) -> failure == null ? clock.now() : Instant.now());
                begun.forEach(task -> task.start(now));
            } else if (!fires.isEmpty()) {
                CompletableFuture<?>[] releases = fires.stream()
                    .map(fire -> client.release(fire.name(), fire.fireId(), fire.token()).whenComplete((result, failure) -> reported(failure)))
                    .toArray(CompletableFuture<?>[]::new);
                CompletableFuture.allOf(releases).whenComplete((result, failure) -> idle());
                return;
            } else if (stopping()) {
                idle();
                return;
            }
            next();
        }

        private void failed(Throwable failure) {
            boolean refused = failure instanceof InvalidException || failure instanceof UnauthenticatedException || failure instanceof ForbiddenException;
            boolean passes = failure instanceof RouseException && !refused;
            boolean over;
            synchronized (Subscription.this) {
                over = stopping;
                request = null;
                if (!over && !passes) {
                    refusal = failure;
                    stopping = true;
                }
            }
            if (over || !passes) {
                idle();
                endPolls();
                return;
            }
            lost(failure);
            CompletableFuture<Void> pause = Transport.Clock.after(PAUSE, () -> {
                idle();
                next();
            });
            pause.whenComplete((result, cancelled) -> {
                if (cancelled != null) {
                    idle();
                }
            });
            synchronized (Subscription.this) {
                request = pause;
                over = stopping;
            }
            if (over) {
                end();
            }
        }

        private void idle() {
            synchronized (Subscription.this) {
                polling = false;
                request = null;
            }
            endIfDone();
        }

        private void ended(Task task) {
            synchronized (Subscription.this) {
                tasks.remove(task);
                running--;
            }
            next();
            endIfDone();
        }
    }

    private synchronized boolean stopping() {
        return stopping;
    }

    private void reported(@Nullable Throwable failure) {
        if (failure != null) {
            lost(Calls.cause(failure));
        }
    }

    /** A fire whose handler runs. */
    private final class Task {
        private final Node node;
        private final Fire fire;
        private @Nullable Work work; // guarded by this
        private @Nullable Throwable reason; // why the work should end; guarded by this
        private boolean taken; // by another attempt; guarded by this
        private boolean over; // guarded by this
        private @Nullable CompletableFuture<?> extension; // guarded by this

        Task(Node node, Fire fire) {
            this.node = node;
            this.fire = fire;
        }

        void start(CompletableFuture<Instant> now) {
            now.thenAccept(at -> extend(Duration.between(at, fire.deadline())));
            Work begun;
            try {
                begun = begin.apply(fire);
            } catch (RuntimeException thrown) {
                ended(thrown);
                return;
            }
            boolean late;
            synchronized (Subscription.this) {
                late = drained;
            }
            Throwable ends;
            synchronized (this) {
                work = begun;
                ends = reason;
            }
            begun.result().whenComplete((result, failure) -> ended(failure == null ? null : Calls.cause(failure)));
            if (late || ends != null) {
                interrupt(ends != null ? ends : new CancellationException("the subscription stops"));
            }
        }

        void interrupt(Throwable why) {
            Work running;
            synchronized (this) {
                reason = reason == null ? why : reason;
                running = over ? null : work;
            }
            if (running != null) {
                running.interrupt();
            }
        }

        /** Reports what became of the work. A fire that is lost is another attempt's. */
        private void ended(@Nullable Throwable failure) {
            CompletableFuture<?> heartbeat;
            boolean lost;
            Throwable why;
            synchronized (this) {
                over = true;
                heartbeat = extension;
                lost = taken;
                why = reason;
            }
            if (heartbeat != null) {
                heartbeat.cancel(true);
            }
            if (lost) {
                node.ended(this);
                return;
            }
            CompletableFuture<@Nullable Void> report;
            if (failure == null) {
                report = client.complete(fire.name(), fire.fireId(), fire.token());
            } else {
                boolean interrupted = why != null && (failure instanceof InterruptedException || failure instanceof CancellationException);
                report = client.fail(fire.name(), fire.fireId(), fire.token(), failureOf(interrupted ? why : failure));
            }
            report.whenComplete((result, error) -> {
                reported(error);
                node.ended(this);
            });
        }

        /** Extends the deadline when a third of the time until it is over. */
        private void extend(Duration left) {
            Duration pause = left.isNegative() ? Duration.ZERO : left.dividedBy(3);
            synchronized (this) {
                if (!over) {
                    extension = Transport.Clock.after(pause, () -> heartbeat(left));
                }
            }
        }

        private void heartbeat(Duration left) {
            CompletableFuture<?> request;
            synchronized (this) {
                if (over) {
                    return;
                }
                request = client.heartbeat(fire.name(), fire.fireId(), fire.token(), options.extend);
                extension = request;
            }
            request.whenComplete((deadline, thrown) -> {
                if (thrown == null) {
                    extend(extended(left, options.extend));
                    return;
                }
                Throwable failure = Calls.cause(thrown);
                synchronized (this) {
                    if (over) {
                        return;
                    }
                    taken = failure instanceof ConflictException || failure instanceof NotFoundException;
                }
                lost(failure);
                if (taken) {
                    interrupt(failure);
                } else {
                    extend(Duration.ofSeconds(3)); // the heartbeat was retried already
                }
            });
        }
    }

    /** Returns the time until a deadline that was extended when a third of its time was over; it is never moved to an earlier time. */
    static Duration extended(Duration left, Duration extend) {
        Duration rest = left.multipliedBy(2).dividedBy(3);
        return rest.compareTo(extend) > 0 ? rest : extend;
    }

    /** Returns how an exception of a handler is reported. */
    private static Failure failureOf(Throwable thrown) {
        String text = thrown.getMessage() == null || thrown.getMessage().isEmpty() ? thrown.getClass().getName() : thrown.getMessage();
        StringBuilder detail = new StringBuilder();
        // Half a character is none for the server.
        text.codePoints().limit(1024).map(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE ? 0xfffd : c).forEach(detail::appendCodePoint);
        Failure.Builder failure = Failure.builder().detail(detail.toString());
        if (thrown instanceof FailedException failed) {
            failure.permanent(failed.permanent());
            if (failed.retryAfter() != null) {
                failure.retryAfter(failed.retryAfter());
            }
        }
        return failure.build();
    }
}
