import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Phaser;
import java.util.concurrent.TimeoutException;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.ShutdownSignalException;

/**
 * A worker of a pool in Java: it answers each request with its body in capitals, the key in front. {@code rouse pool} starts one for each key
 * that is asked for; all that it knows, it knows from its environment. docs/pools.md describes what a worker does. {@code work} is yours to
 * replace; the rest may stay as it is.
 */
public final class Worker {
    private static final String KEY = System.getenv().getOrDefault("WORKER_KEY", "");
    private static final String REPORTS = System.getenv().getOrDefault("WORKER_ACTIVITY_KEY", KEY);
    private static final String QUEUE = needed("WORKER_REQUESTS_QUEUE");
    private static final String ACTIVITY = needed("WORKER_ACTIVITY_EXCHANGE");
    private static final int PREFETCH = Integer.parseInt(needed("WORKER_PREFETCH"));
    private static final long GIVE_UP = 60_000; // milliseconds without a connection after which rouse is to start another worker

    private static String needed(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalStateException(name + " is not set: is this a worker of rouse?");
        }
        return value;
    }

    /** Does what a request asks for, in a thread of its own. One that fails goes to another worker, a few times. */
    private static byte[] work(byte[] body) throws Exception {
        Thread.sleep((long) (1000 * Double.parseDouble(System.getenv().getOrDefault("WORK_SECONDS", "0"))));
        return (KEY + ": " + new String(body, UTF_8).toUpperCase()).getBytes(UTF_8);
    }

    /** The queue is gone: there is nothing left to do. */
    private static final class Gone extends Exception {
        private static final long serialVersionUID = 1;

        Gone(String message) {
            super(message);
        }
    }

    // One connection to RabbitMQ. Threads use the channel one at a time.
    private final Connection connection;
    private final Channel channel;
    private final Phaser busy = new Phaser(1); // requests that are worked on, and this
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private final String tag;

    private Worker(ConnectionFactory factory, ExecutorService threads) throws IOException, TimeoutException {
        connection = factory.newConnection(needed("WORKER_ID"));
        try {
            channel = connection.createChannel();
            channel.addShutdownListener(ended::completeExceptionally);
            channel.confirmSelect();
            // No more requests at a time than are worked on at a time: those that wait here die with the one that crashes this worker.
            channel.basicQos(PREFETCH);
            report("started");
            tag = channel.basicConsume(QUEUE, false, (tag, request) -> {
                busy.register();
                threads.execute(() -> serve(request));
            }, tag -> ended.completeExceptionally(new Gone("the queue is gone")));
        } catch (IOException | RuntimeException e) {
            connection.abort(1000);
            throw e;
        }
    }

    /** Tells rouse that this worker is in use. */
    private void report(String event) throws IOException {
        synchronized (channel) {
            channel.basicPublish(ACTIVITY, REPORTS, new BasicProperties.Builder().headers(Map.of("x-event", event)).build(), new byte[0]);
        }
    }

    /** Answers a request. It is acknowledged when the broker has the answer; if this worker dies before, another one gets it. */
    private void serve(Delivery request) {
        try {
            report("request-received");
            byte[] answer;
            try {
                answer = work(request.getBody());
            } catch (Exception e) {
                System.err.println("a request is given back: " + e);
                synchronized (channel) {
                    channel.basicReject(request.getEnvelope().getDeliveryTag(), true);
                }
                return;
            }
            BasicProperties asked = request.getProperties();
            synchronized (channel) {
                if (asked.getReplyTo() != null) {
                    BasicProperties ok = new BasicProperties.Builder().correlationId(asked.getCorrelationId()).headers(Map.of("x-status", "ok")).build();
                    channel.basicPublish("", asked.getReplyTo(), ok, answer);
                    channel.waitForConfirmsOrDie();
                }
                channel.basicAck(request.getEnvelope().getDeliveryTag(), false);
            }
        } catch (IOException | InterruptedException | RuntimeException e) { // the connection is gone, and another worker has the request
            ended.completeExceptionally(e);
        } finally {
            busy.arriveAndDeregister();
        }
    }

    /** Serves until it is to stop, and then finishes what it has begun. */
    private void run(CompletableFuture<Void> stop) throws Exception {
        try {
            CompletableFuture.anyOf(ended, stop).get();
            synchronized (channel) {
                channel.basicCancel(tag); // nothing comes after this
            }
            busy.arriveAndAwaitAdvance();
            channel.close(); // or the last acknowledgement is lost with the connection, and its request is answered twice
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } finally {
            connection.abort(1000);
        }
    }

    /** Returns whether the broker has refused the queue because it does not exist. */
    private static boolean isGone(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof Gone || cause instanceof ShutdownSignalException s && s.getReason() instanceof AMQP.Channel.Close close && close.getReplyCode() == AMQP.NOT_FOUND) {
                return true;
            }
        }
        return false;
    }

    public static void main(String[] args) throws Exception {
        CompletableFuture<Void> stop = new CompletableFuture<>();
        CountDownLatch over = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM
            stop.complete(null);
            try {
                over.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            Runtime.getRuntime().halt(0); // in place of 143
        }));
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(needed("WORKER_AMQP_URI"));
        factory.setAutomaticRecoveryEnabled(false); // it would not report that it has started
        ExecutorService threads = Executors.newFixedThreadPool(PREFETCH, task -> {
            Thread thread = new Thread(task, "work");
            thread.setDaemon(true);
            return thread;
        });
        long lost = System.nanoTime();
        long pause = 100;
        while (!stop.isDone()) {
            try {
                Worker worker = new Worker(factory, threads);
                pause = 100;
                try {
                    worker.run(stop);
                } finally {
                    lost = System.nanoTime();
                }
            } catch (IOException | TimeoutException | RuntimeException | Gone e) {
                if (isGone(e)) {
                    System.err.println("the queue is gone: " + e.getMessage());
                    Runtime.getRuntime().halt(1); // rouse starts another one, if it is wanted
                }
                System.err.println("no connection to RabbitMQ: " + e.getMessage());
                if (System.nanoTime() - lost > GIVE_UP * 1_000_000) {
                    System.err.println("RabbitMQ did not come back");
                    Runtime.getRuntime().halt(1);
                }
                Thread.sleep(pause);
                pause = Math.min(2 * pause, 5000);
            }
        }
        over.countDown();
    }
}
