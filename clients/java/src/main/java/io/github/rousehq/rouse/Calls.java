package io.github.rousehq.rouse;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;

import org.jspecify.annotations.Nullable;

/** Futures of calls: one that is cancelled cancels what it waits for. */
final class Calls {
    private Calls() {}

    /** A future whose cancellation ends something else, too. */
    static final class Linked<T> extends CompletableFuture<T> {
        private volatile @Nullable CompletableFuture<?> behind;

        /** Sets what is cancelled with this one from now on. */
        void behind(CompletableFuture<?> future) {
            behind = future;
            if (isCancelled()) {
                future.cancel(true);
            }
        }

        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            boolean cancelled = super.cancel(mayInterruptIfRunning);
            CompletableFuture<?> future = behind;
            if (cancelled && future != null) {
                future.cancel(mayInterruptIfRunning);
            }
            return cancelled;
        }
    }

    /** Returns a future of what a function makes of the result of another one. */
    static <T, R> CompletableFuture<R> map(CompletableFuture<T> future, Function<? super T, ? extends R> function) {
        return then(future, value -> CompletableFuture.completedFuture(function.apply(value)), null);
    }

    /** Returns a future of what a function begins with the result of another one, or another one with its failure. */
    static <T, R> CompletableFuture<R> then(
            CompletableFuture<T> future, Function<? super T, CompletableFuture<R>> next, @Nullable Function<Throwable, CompletableFuture<R>> failed) {
        Linked<R> out = new Linked<>();
        out.behind(future);
        future.whenComplete((value, failure) -> {
            try {
                if (failure != null && failed == null) {
                    out.completeExceptionally(cause(failure));
                    return;
                }
                CompletableFuture<R> second = failure == null ? next.apply(value) : failed.apply(cause(failure));
                out.behind(second);
                second.whenComplete((result, error) -> {
                    if (error != null) {
                        out.completeExceptionally(cause(error));
                    } else {
                        out.complete(result);
                    }
                });
            } catch (Throwable thrown) { // by a function: it must not be lost
                out.completeExceptionally(thrown);
            }
        });
        return out;
    }

    /** Returns what failed, without the exceptions that futures wrap it in. */
    static Throwable cause(Throwable failure) {
        Throwable cause = failure;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    /** Waits for a call, and returns its result or throws its exception, with the stack of the caller. */
    static <T> T await(CompletableFuture<T> future) {
        try {
            return future.get();
        } catch (InterruptedException e) {
            future.cancel(true);
            Thread.currentThread().interrupt();
            throw new ConnectionFailedException("the thread was interrupted during the call", true, e);
        } catch (ExecutionException e) {
            Throwable cause = cause(e);
            if (cause instanceof RuntimeException failure) {
                failure.addSuppressed(new Caller());
                throw failure;
            }
            if (cause instanceof Error error) {
                throw error;
            }
            throw new IllegalStateException(cause);
        }
    }

    /** Shows where the call was made; the stack of the exception is that of the thread which read the answer. */
    private static final class Caller extends RuntimeException {
        private static final long serialVersionUID = 1;

        Caller() {
            super("the call was made here");
        }
    }
}
