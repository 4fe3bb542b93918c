package io.github.rousehq.rouse;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.Fire;

/** The work of a handler that blocks: it is asked to end by an interrupt of its thread, and has ended when the handler returns. */
final class Blocking implements Subscription.Work, Runnable {
    private final Handler handler;
    private final Fire fire;
    private final CompletableFuture<@Nullable Void> result = new CompletableFuture<>();
    private @Nullable Thread thread; // guarded by this
    private boolean begun; // guarded by this
    private boolean interrupted; // guarded by this

    private Blocking(Handler handler, Fire fire) {
        this.handler = handler;
        this.fire = fire;
    }

    static Subscription.Work begin(Handler handler, Fire fire, Executor executor) {
        Blocking work = new Blocking(handler, fire);
        executor.execute(work);
        return work;
    }

    @Override
    public CompletableFuture<?> result() {
        return result;
    }

    @Override
    public void interrupt() {
        synchronized (this) {
            interrupted = true;
            if (thread != null) {
                thread.interrupt();
            }
            if (begun) {
                return;
            }
        }
        result.completeExceptionally(new CancellationException("it was not begun"));
    }

    @Override
    public void run() {
        synchronized (this) {
            if (interrupted) {
                return;
            }
            begun = true;
            thread = Thread.currentThread();
        }
        Throwable thrown = null;
        try {
            handler.handle(fire);
        } catch (Throwable failure) { // errors, too: one bad fire does not end the others
            thrown = failure;
        }
        synchronized (this) {
            thread = null; // no interrupt comes after this
            if (interrupted) {
                Thread.interrupted(); // the thread is used again
            }
        }
        if (thrown == null) {
            result.complete(null);
        } else {
            result.completeExceptionally(thrown);
        }
    }
}
