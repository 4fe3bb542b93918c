package io.github.rousehq.rouse;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

import org.jspecify.annotations.Nullable;

/** Which fires a handler gets, and how many at a time. */
public final class SubscribeOptions {
    private static final System.Logger LOG = System.getLogger("io.github.rousehq.rouse");

    final @Nullable String namePrefix;
    final Map<String, String> labels;
    final int concurrency;
    final Duration extend;
    final Duration drain;
    final Consumer<Throwable> lost;
    final @Nullable Executor executor;

    private SubscribeOptions(Builder given) {
        namePrefix = given.namePrefix;
        labels = Map.copyOf(given.labels);
        concurrency = given.concurrency;
        extend = given.extend;
        drain = given.drain;
        lost = given.lost;
        executor = given.executor;
    }

    /**
     * Returns a builder of options.
     *
     * @return a builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /** Builds options. Those that are not set have their defaults. */
    public static final class Builder {
        private @Nullable String namePrefix;
        private Map<String, String> labels = Map.of();
        private int concurrency = 16;
        private Duration extend = Duration.ofSeconds(30);
        private Duration drain = Duration.ofSeconds(10);
        private Consumer<Throwable> lost = error -> LOG.log(System.Logger.Level.WARNING, "rouse: " + error.getMessage());
        private @Nullable Executor executor;

        private Builder() {}

        /**
         * Selects timers by the beginning of their names.
         *
         * @param prefix default none
         * @return this
         */
        public Builder namePrefix(String prefix) {
            this.namePrefix = prefix;
            return this;
        }

        /**
         * Selects timers by their labels.
         *
         * @param labels those that a timer must have; default none
         * @return this
         */
        public Builder labels(Map<String, String> labels) {
            this.labels = labels;
            return this;
        }

        /**
         * Sets how many handlers run at a time for the fires of one node.
         *
         * @param handlers default 16
         * @return this
         */
        public Builder concurrency(int handlers) {
            if (handlers < 1) {
                throw new IllegalArgumentException("concurrency " + handlers + ": use at least 1");
            }
            this.concurrency = handlers;
            return this;
        }

        /**
         * Sets by how much the deadline of a fire is extended while its handler runs, three times as often as it is needed.
         *
         * @param time default 30 seconds
         * @return this
         */
        public Builder extend(Duration time) {
            this.extend = time;
            return this;
        }

        /**
         * Sets for how long handlers may go on when the subscription stops, before they are interrupted or cancelled.
         *
         * @param time default 10 seconds
         * @return this
         */
        public Builder drain(Duration time) {
            this.drain = time;
            return this;
        }

        /**
         * Sets what is called with each error because of which fires do not come now, or are not reported. The subscription goes on.
         *
         * @param lost default a warning of {@link System.Logger}
         * @return this
         */
        public Builder lost(Consumer<Throwable> lost) {
            this.lost = lost;
            return this;
        }

        /**
         * Sets what runs handlers that block.
         *
         * @param executor default threads of the subscription's own
         * @return this
         */
        public Builder executor(Executor executor) {
            this.executor = executor;
            return this;
        }

        /**
         * Returns the options.
         *
         * @return what was set
         */
        public SubscribeOptions build() {
            return new SubscribeOptions(this);
        }
    }
}
