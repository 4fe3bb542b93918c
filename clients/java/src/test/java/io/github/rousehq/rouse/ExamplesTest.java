package io.github.rousehq.rouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The examples of the README, of docs/clients.md and of the comments run against a development server, and print what they claim. */
class ExamplesTest {
    private static final Path SOURCES = Path.of("src/main/java/io/github/rousehq/rouse");
    private static final Pattern BLOCK = Pattern.compile("^```java\\n(.*?)^```", Pattern.DOTALL | Pattern.MULTILINE);
    private static final Pattern PRE = Pattern.compile("^ *\\* <pre>\\{@code\\n(.*?)^ *\\* }</pre>", Pattern.DOTALL | Pattern.MULTILINE);
    private static final Pattern PRINTS = Pattern.compile("System\\.out\\.println\\(.*\\)[;)]* // (.*)|// prints: (.*)");

    @TempDir
    static Path dir;

    private static List<String> blocks(Pattern pattern, String text) {
        return pattern.matcher(text).results().map(found -> found.group(1).replaceAll("(?m)^ *\\* ?", "")).toList();
    }

    private static List<String> comments(String... files) throws Exception {
        List<String> out = new ArrayList<>();
        for (String file : files) {
            out.addAll(blocks(PRE, Files.readString(SOURCES.resolve(file))));
        }
        return out;
    }

    /** Runs examples as one program, and compares what it prints with what is in a comment after each line. */
    private static void run(String name, int least, List<String> blocks, String before) throws Exception {
        TreeSet<String> imports = new TreeSet<>();
        List<String> want = new ArrayList<>();
        StringBuilder body = new StringBuilder();
        for (String block : blocks) {
            for (String line : block.split("\n")) {
                if (line.startsWith("import ")) {
                    imports.add(line);
                    continue;
                }
                Matcher prints = PRINTS.matcher(line);
                if (prints.find()) {
                    want.add(prints.group(1) != null ? prints.group(1) : prints.group(2));
                }
                body.append("        ").append(line).append('\n');
            }
        }
        String source = String.join("\n", imports) + "\npublic class " + name + " {\n    public static void run(String server) throws Exception {\n" + before + body + "    }\n}\n";
        Path file = Files.writeString(dir.resolve(name + ".java"), source);
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter problems = new StringWriter();
        try (StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null)) {
            List<String> options = List.of("-d", dir.toString(), "-cp", System.getProperty("java.class.path"), "-Xlint:all,-processing,-try", "-Werror");
            boolean compiled = compiler.getTask(problems, files, null, options, null, files.getJavaFileObjects(file)).call();
            assertTrue(compiled, () -> problems + "\n" + source);
        }
        PrintStream out = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {dir.toUri().toURL()}); io.github.rousehq.rouse.testing.DevServer dev = io.github.rousehq.rouse.testing.DevServer.start()) {
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            loader.loadClass(name).getMethod("run", String.class).invoke(null, dev.address());
        } finally {
            System.setOut(out);
        }
        assertEquals(want, printed.toString(StandardCharsets.UTF_8).lines().toList());
        assertTrue(want.size() >= least, want.size() + " lines are compared");
    }

    private static final String IMPORTS = """
        import io.github.rousehq.rouse.*;
        import io.github.rousehq.rouse.model.*;
        import io.github.rousehq.rouse.testing.*;
        import java.time.Duration;
        import java.time.Instant;
        import java.time.LocalDate;
        import java.util.List;
        import java.util.Map;
        import java.util.concurrent.CountDownLatch;
        """;

    @Test
    void thoseOfTheReadme() throws Exception {
        run("Readme", 10, blocks(BLOCK, Files.readString(Path.of("README.md"))), "");
    }

    @Test
    void thoseOfTheDocs() throws Exception {
        Path docs = Path.of(System.getProperty("rouse.docs", "../../docs"));
        run("Docs", 1, blocks(BLOCK, Files.readString(docs.resolve("clients.md"))), "");
    }

    @Test
    void thoseOfTheComments() throws Exception {
        List<String> sync = new ArrayList<>(List.of(IMPORTS));
        sync.addAll(comments("RouseClient.java", "Payload.java", "Patch.java", "Webhooks.java", "testing/DevServer.java"));
        run("Sync", 30, sync, "");
        List<String> async = new ArrayList<>(List.of(IMPORTS));
        async.addAll(comments("RouseAsyncClient.java"));
        // The first example closes the client that it makes.
        async.set(1, async.get(1).replace("client.close();", ""));
        run("Async", 25, async, "");
    }
}
