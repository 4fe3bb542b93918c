package io.github.rousehq.rouse;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * JSON as RFC 8259 has it. The JDK has none, and a library would be one that the programs of users have in another version.
 *
 * <p>Objects are maps that keep the order of their members, numbers are Long, BigInteger or BigDecimal, so that none is changed.
 */
final class Json {
    /** As many levels as the server reads. */
    private static final int LEVELS = 64;

    /** The text of a member of an object, as it was sent: payloads are delivered byte for byte. */
    record Raw(String text) {}

    private final String text;
    private final @Nullable String raw;
    private int at;

    private Json(String text, @Nullable String raw) {
        this.text = text;
        this.raw = raw;
    }

    /** Reads a value. */
    static @Nullable Object parse(String text) {
        return parse(text, null);
    }

    /** Reads a value. Members of objects with the name raw are not read, but returned as {@link Raw}. */
    static @Nullable Object parse(String text, @Nullable String raw) {
        Json json = new Json(text, raw);
        Object value = json.value(0);
        json.space();
        if (json.at < text.length()) {
            throw json.error("has more after its value");
        }
        return value;
    }

    private @Nullable Object value(int level) {
        space();
        if (level > LEVELS) {
            throw error("has more than " + LEVELS + " levels");
        }
        char c = peek();
        return switch (c) {
            case '{' -> object(level);
            case '[' -> array(level);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, @Nullable Object> object(int level) {
        Map<String, @Nullable Object> members = new LinkedHashMap<>();
        at++;
        space();
        if (take('}')) {
            return members;
        }
        do {
            space();
            if (peek() != '"') {
                throw error("has no name of a member");
            }
            String name = string();
            space();
            expect(':');
            space();
            int start = at;
            Object value = value(level + 1);
            members.put(name, name.equals(raw) ? new Raw(text.substring(start, at)) : value);
            space();
        } while (take(','));
        expect('}');
        return members;
    }

    private List<@Nullable Object> array(int level) {
        List<@Nullable Object> list = new ArrayList<>();
        at++;
        space();
        if (take(']')) {
            return list;
        }
        do {
            list.add(value(level + 1));
            space();
        } while (take(','));
        expect(']');
        return list;
    }

    private String string() {
        int end = ++at;
        while (end < text.length() && text.charAt(end) != '"' && text.charAt(end) != '\\' && text.charAt(end) >= ' ') {
            end++;
        }
        if (end < text.length() && text.charAt(end) == '"') { // most have no escapes
            String all = text.substring(at, end);
            at = end + 1;
            return all;
        }
        StringBuilder out = new StringBuilder(text.substring(at, end));
        for (at = end;;) {
            char c = peek();
            at++;
            if (c == '"') {
                return out.toString();
            }
            if (c < ' ') {
                throw error("has a control character in a text");
            }
            if (c != '\\') {
                out.append(c);
                continue;
            }
            c = peek();
            at++;
            switch (c) {
                case '"', '\\', '/' -> out.append(c);
                case 'b' -> out.append('\b');
                case 'f' -> out.append('\f');
                case 'n' -> out.append('\n');
                case 'r' -> out.append('\r');
                case 't' -> out.append('\t');
                case 'u' -> out.append(unit());
                default -> throw error("has an unknown escape");
            }
        }
    }

    private char unit() {
        int unit = 0;
        for (int i = 0; i < 4; i++) {
            int digit = Character.digit(peek(), 16);
            if (digit < 0 || peek() > 'f') {
                throw error("has an unknown escape");
            }
            unit = unit * 16 + digit;
            at++;
        }
        return (char) unit;
    }

    private Object number() {
        int start = at;
        take('-');
        if (!take('0')) {
            digits();
        }
        boolean whole = true;
        if (take('.')) {
            whole = false;
            digits();
        }
        if (take('e') || take('E')) {
            whole = false;
            if (!take('+')) {
                take('-');
            }
            digits();
        }
        String number = text.substring(start, at);
        if (!whole) {
            return new BigDecimal(number);
        }
        return number.length() < 19 ? (Object) Long.valueOf(number) : whole(number);
    }

    private static Object whole(String number) {
        BigInteger big = new BigInteger(number);
        return big.bitLength() < 64 ? (Object) big.longValue() : big;
    }

    private void digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start) {
            throw error("has no value");
        }
    }

    private @Nullable Object word(String word, @Nullable Object value) {
        if (!text.startsWith(word, at)) {
            throw error("has no value");
        }
        at += word.length();
        return value;
    }

    private void space() {
        while (at < text.length() && (text.charAt(at) == ' ' || text.charAt(at) == '\n' || text.charAt(at) == '\r' || text.charAt(at) == '\t')) {
            at++;
        }
    }

    private char peek() {
        if (at >= text.length()) {
            throw error("ends too early");
        }
        return text.charAt(at);
    }

    private boolean take(char c) {
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char c) {
        if (!take(c)) {
            throw error("has no '" + c + "'");
        }
    }

    private IllegalArgumentException error(String what) {
        return new IllegalArgumentException("the JSON " + what + " at character " + at);
    }

    /** Returns the text of a value: of maps, lists, texts, numbers, booleans, null and {@link Raw}. */
    static String write(@Nullable Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(@Nullable Object value, StringBuilder out) {
        if (value == null || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Raw raw) {
            out.append(raw.text);
        } else if (value instanceof CharSequence || value instanceof Character) {
            quote(value.toString(), out);
        } else if (value instanceof Number number) {
            double d = number.doubleValue();
            boolean exact = number instanceof BigDecimal || number instanceof BigInteger;
            if (!exact && !Double.isFinite(d)) {
                throw new IllegalArgumentException(number + " cannot be sent: JSON has no such number");
            }
            out.append(number);
        } else if (value instanceof Map<?, ?> map) {
            char separator = '{';
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                if (!(entry.getKey() instanceof String name)) {
                    throw new IllegalArgumentException("the key " + entry.getKey() + " of a map cannot be sent: use texts");
                }
                out.append(separator);
                quote(name, out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            out.append('[');
            int start = out.length();
            for (Object one : list) {
                if (out.length() > start) {
                    out.append(',');
                }
                write(one, out);
            }
            out.append(']');
        } else {
            throw new IllegalArgumentException("a " + value.getClass().getName() + " cannot be sent: use maps, lists, texts, numbers and booleans, or Payload.json");
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '"', '\\' -> out.append('\\').append(c);
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                default -> {
                    if (c < ' ') {
                        out.append(String.format("\\u%04x", (int) c));
                    } else {
                        out.append(c);
                    }
                }
            }
        }
        out.append('"');
    }

    /** Returns a text as UTF-8. Half a character, which would be replaced by another one, is refused. */
    static byte[] bytes(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            return bytes;
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("a text has half a surrogate pair, which cannot be sent", e);
        }
    }
}
