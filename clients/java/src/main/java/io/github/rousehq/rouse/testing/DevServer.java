package io.github.rousehq.rouse.testing;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import io.github.rousehq.rouse.ClientBuilder;
import io.github.rousehq.rouse.RouseClient;

/**
 * A {@code rouse dev} on a port of its own, with its timers in memory, whose clock a test moves. It runs the program {@code rouse}, found by
 * the variable {@code ROUSE_BINARY} or on the {@code PATH}, and ends with {@link #close()}, or with this process.
 *
 * <pre>{@code
 * try (DevServer dev = DevServer.start(); RouseClient test = dev.client()) {
 *     test.create("tomorrow", Spec.builder("stream:x").schedule("@after 24h").build());
 *     test.advanceClock(Duration.ofHours(25));
 *     System.out.println(test.explain("tomorrow").reasons().get(0).code()); // waiting
 * }
 * }</pre>
 */
public final class DevServer implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(30); // for its start and its end

    private final Process process;
    private final Path dir;
    private final Thread hook;
    private String address = "";

    private DevServer(Process process, Path dir) {
        this.process = process;
        this.dir = dir;
        this.hook = new Thread(process::destroyForcibly);
    }

    /**
     * Starts a server.
     *
     * @param arguments further flags of {@code rouse dev}
     * @return a server that takes requests
     */
    public static DevServer start(String... arguments) {
        return start(List.of("dev"), Map.of(), arguments);
    }

    /**
     * Starts a server by another command than {@code rouse dev}.
     *
     * @param command such as {@code serve}, with its flags
     * @param environment further variables
     * @param arguments further flags
     * @return a server that takes requests
     */
    public static DevServer start(List<String> command, Map<String, String> environment, String... arguments) {
        try {
            Path dir = Files.createTempDirectory("rouse-dev-");
            Path file = dir.resolve("addresses");
            Path log = dir.resolve("log");
            List<String> line = new ArrayList<>(List.of(binary()));
            line.addAll(command);
            line.addAll(List.of("--listen", "127.0.0.1:0", "--admin", "", "--address-file", file.toString()));
            line.addAll(List.of(arguments));
            ProcessBuilder builder = new ProcessBuilder(line).directory(dir.toFile()).redirectErrorStream(true).redirectOutput(log.toFile());
            // Settings of the person who runs the tests are not for this server.
            builder.environment().keySet().removeIf(name -> name.startsWith("ROUSE_"));
            builder.environment().putAll(environment);
            builder.redirectInput(new File(File.separatorChar == '/' ? "/dev/null" : "NUL"));
            DevServer server;
            try {
                server = new DevServer(builder.start(), dir);
            } catch (IOException e) {
                remove(dir);
                throw new UncheckedIOException("there is no program rouse: install it, or name it with ROUSE_BINARY", e);
            }
            Runtime.getRuntime().addShutdownHook(server.hook);
            server.await(file, log, String.join(" ", command));
            return server;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String binary() {
        String named = System.getenv("ROUSE_BINARY");
        return named == null || named.isEmpty() ? "rouse" : Path.of(named).toAbsolutePath().toString();
    }

    /** Waits until it has written its address. */
    private void await(Path file, Path log, String command) throws IOException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!Files.exists(file)) {
            boolean interrupted = false;
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                interrupted = true;
            }
            if (interrupted || !process.isAlive() || System.nanoTime() - end > 0) {
                String output = Files.readString(log);
                close();
                throw new IllegalStateException("rouse " + command + " did not start:\n" + output.substring(Math.max(0, output.length() - 2000)));
            }
        }
        address = Files.readString(file).strip().split("\\s+")[1]; // after the word "api"
    }

    /**
     * Returns the address of the API.
     *
     * @return {@code HOST:PORT}
     */
    public String address() {
        return address;
    }

    /**
     * Returns a client of the server.
     *
     * @return a client that blocks
     */
    public RouseClient client() {
        return builder().build();
    }

    /**
     * Returns a builder of clients of the server, for other settings.
     *
     * @return a builder
     */
    public ClientBuilder builder() {
        return RouseClient.builder().server("http://" + address);
    }

    /** Stops the server, and removes its files. */
    @Override
    public void close() {
        process.destroy();
        boolean interrupted = false;
        try {
            if (!process.waitFor(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            interrupted = true;
        }
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException e) {
            // the process is ending
        }
        remove(dir);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void remove(Path dir) {
        try (Stream<Path> files = Files.walk(dir)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
