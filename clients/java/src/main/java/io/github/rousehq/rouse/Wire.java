package io.github.rousehq.rouse;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.jspecify.annotations.Nullable;

import io.github.rousehq.rouse.model.Problem;

/** How values are sent and read: records as JSON, times, durations, paths, problems. Nothing here does I/O. */
final class Wire {
    private Wire() {}

    /** A member of a record: its names in Java and JSON, and how it is read. */
    private record Member(Class<?> kind, Type type, String json, Method get) {}

    /** The members of a class of records, and how one is made. */
    private record Shape(Constructor<?> make, List<Member> members) {}

    private static final Map<Class<?>, Shape> SHAPES = new ConcurrentHashMap<>();

    private static Shape shapeOf(Class<?> record) {
        return SHAPES.computeIfAbsent(record, c -> {
            List<Member> members = new ArrayList<>();
            RecordComponent[] components = c.getRecordComponents();
            Class<?>[] kinds = new Class<?>[components.length];
            for (int i = 0; i < components.length; i++) {
                kinds[i] = components[i].getType();
                members.add(new Member(kinds[i], components[i].getGenericType(), snake(components[i].getName()), components[i].getAccessor()));
            }
            try {
                return new Shape(c.getConstructor(kinds), members);
            } catch (NoSuchMethodException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    private static String snake(String name) {
        return switch (name) { // no record has members wait and notify: every object has methods of these names
            case "waitFor" -> "wait";
            case "notifyTarget" -> "notify";
            default -> name.replaceAll("([A-Z])", "_$1").toLowerCase(java.util.Locale.ROOT);
        };
    }

    /** Returns the members of a record as JSON has them. What is null or empty is left out. */
    static Map<String, @Nullable Object> members(@Nullable Record record) {
        Map<String, @Nullable Object> out = new LinkedHashMap<>();
        if (record == null) {
            return out;
        }
        for (Member member : shapeOf(record.getClass()).members) {
            Object value;
            try {
                value = member.get.invoke(record);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
            if (value instanceof Payload payload) {
                out.putAll(payload.members());
            } else if (value != null && !(value instanceof List<?> list && list.isEmpty()) && !(value instanceof Map<?, ?> map && map.isEmpty())) {
                out.put(member.json, encode(value));
            }
        }
        return out;
    }

    /** Returns what a value is in JSON. */
    static @Nullable Object encode(@Nullable Object value) {
        if (value instanceof Record record && !(value instanceof Json.Raw)) {
            return members(record);
        }
        if (value instanceof Duration duration) {
            return text(duration);
        }
        if (value instanceof Instant || value instanceof LocalDate || value instanceof OffsetDateTime || value instanceof Enum<?>) {
            return value.toString();
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Wire::encode).toList();
        }
        if (value instanceof Map<?, ?> map) {
            Map<Object, @Nullable Object> out = new LinkedHashMap<>();
            map.forEach((k, v) -> {
                if (v != null) {
                    out.put(k, encode(v));
                }
            });
            return out;
        }
        return value;
    }

    /** Returns the body of a request. */
    static byte[] body(@Nullable Object value) {
        return Json.bytes(Json.write(encode(value)));
    }

    /** Reads the object of an answer, in which payloads keep their text. */
    @SuppressWarnings("unchecked")
    static Map<String, @Nullable Object> object(String json) {
        if (Json.parse(json, "payload") instanceof Map<?, ?> map) {
            return (Map<String, @Nullable Object>) map;
        }
        throw new IllegalArgumentException("the JSON has no object where one is expected");
    }

    /** Reads a record. Members that it does not know are of later servers, and left out. */
    @SuppressWarnings("unchecked")
    static <T extends Record> T decode(Class<T> record, @Nullable Object data) {
        if (!(data instanceof Map<?, ?> object)) {
            throw new IllegalArgumentException("the JSON has no object where one is expected");
        }
        Shape shape = shapeOf(record);
        @Nullable Object[] values = new @Nullable Object[shape.members.size()];
        for (int i = 0; i < values.length; i++) {
            Member member = shape.members.get(i);
            if (member.kind == Payload.class) {
                Object raw = object.get("payload");
                values[i] = raw instanceof Json.Raw json ? Payload.sent(json.text()) : object.get("payload_base64") instanceof String text ? Payload.decoded(text) : null;
            } else {
                values[i] = value(member.type, object.get(member.json));
            }
        }
        try {
            return (T) shape.make.newInstance(values);
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException(e.getCause() == null ? e : e.getCause());
        }
    }

    /** Reads the list of records that a member of an answer has. */
    static <T extends Record> List<T> list(Class<T> record, @Nullable Object data) {
        if (data instanceof List<?> list) {
            return list.stream().map(one -> decode(record, one)).toList();
        }
        throw new IllegalArgumentException("the JSON has no list where one is expected");
    }

    private static @Nullable Object value(Type type, @Nullable Object given) {
        Object data = given instanceof Json.Raw raw ? Json.parse(raw.text()) : given; // of a label with this name, for example
        if (type instanceof ParameterizedType generic) {
            Type of = generic.getActualTypeArguments()[generic.getActualTypeArguments().length - 1];
            if (data instanceof List<?> list) {
                return list.stream().map(one -> value(of, one)).toList();
            }
            if (data instanceof Map<?, ?> map) {
                Map<String, @Nullable Object> out = new LinkedHashMap<>();
                map.forEach((k, v) -> out.put((String) k, value(of, v)));
                return out;
            }
            return null;
        }
        Class<?> kind = (Class<?>) type;
        if (kind == long.class || kind == Long.class) {
            return data instanceof Number n ? (Object) n.longValue() : kind == long.class ? 0L : null;
        }
        if (kind == double.class || kind == Double.class) {
            return data instanceof Number n ? (Object) n.doubleValue() : kind == double.class ? 0.0 : null;
        }
        if (kind == boolean.class) {
            return Boolean.TRUE.equals(data);
        }
        if (data == null) {
            return null;
        }
        if (Record.class.isAssignableFrom(kind)) {
            return decode(kind.asSubclass(Record.class), data);
        }
        if (kind == Boolean.class) {
            return (Boolean) data;
        }
        if (kind == String.class) {
            return (String) data;
        }
        return word(kind, (String) data);
    }

    private static Object word(Class<?> kind, String text) {
        try {
            if (kind == Instant.class) {
                return OffsetDateTime.parse(text).toInstant();
            }
            if (kind == OffsetDateTime.class) {
                return OffsetDateTime.parse(text);
            }
            if (kind == LocalDate.class) {
                return LocalDate.parse(text);
            }
        } catch (DateTimeException e) {
            throw new IllegalArgumentException("\"" + text + "\" is no time of RFC 3339", e);
        }
        if (kind == Duration.class) {
            return duration(text);
        }
        Object[] words = kind.getEnumConstants();
        for (Object word : words) {
            if (word.toString().equals(text)) {
                return word;
            }
        }
        return words[words.length - 1]; // UNRECOGNIZED
    }

    private static final Pattern PART = Pattern.compile("([0-9]+)(?:\\.([0-9]{1,18}))?(h|ms|m|us|µs|ns|s)");
    private static final Map<String, Long> NANOS = Map.of("h", 3_600_000_000_000L, "m", 60_000_000_000L, "s", 1_000_000_000L, "ms", 1_000_000L, "us", 1000L, "µs", 1000L, "ns", 1L);

    /** Reads a duration, such as 1h30m0s. */
    static Duration duration(String text) {
        String rest = text.startsWith("-") ? text.substring(1) : text;
        Matcher parts = PART.matcher(rest);
        Duration sum = Duration.ZERO;
        int end = 0;
        for (; end < rest.length() && parts.find() && parts.start() == end; end = parts.end()) {
            long unit = NANOS.get(parts.group(3));
            sum = sum.plus(Duration.ofNanos(unit).multipliedBy(Long.parseLong(parts.group(1))));
            if (parts.group(2) != null) {
                sum = sum.plusNanos(Math.round(Double.parseDouble("0." + parts.group(2)) * unit));
            }
        }
        if (!rest.equals("0") && (end < rest.length() || rest.isEmpty())) {
            throw new IllegalArgumentException("\"" + text + "\" is no duration");
        }
        return text.startsWith("-") ? sum.negated() : sum;
    }

    /** Returns a duration as the server reads it. */
    static String text(Duration duration) {
        Duration d = duration.abs();
        String text = d.getSeconds() == 0 && d.getNano() > 0 ? d.getNano() + "ns" : d.getNano() == 0 ? d.getSeconds() + "s" : d.getSeconds() + "s" + d.getNano() + "ns";
        return (duration.isNegative() ? "-" : "") + text;
    }

    /** Returns a path whose parts are escaped. A verb is added to it, after a colon. */
    static String path(String... parts) {
        StringBuilder out = new StringBuilder("/v1");
        for (String part : parts) {
            out.append('/').append(escape(part));
        }
        return out.toString();
    }

    /** Returns a text with %XX for all bytes but letters, digits and -._~ and also for the dots of "." and "..", which are steps in a path. */
    static String escape(String text) {
        StringBuilder out = new StringBuilder();
        boolean step = text.equals(".") || text.equals("..");
        for (byte b : Json.bytes(text)) {
            char c = (char) (b & 0xff);
            if (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '~' || c == '.' && !step) {
                out.append(c);
            } else {
                out.append('%').append(Character.toUpperCase(Character.forDigit(c >> 4, 16))).append(Character.toUpperCase(Character.forDigit(c & 15, 16)));
            }
        }
        return out.toString();
    }

    /** Reads what is percent-encoded, in which a plus is a plus. */
    static String unescape(String text) {
        return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    // Parameters of queries that may be given more than once have a singular name.
    private static final Map<String, String> SINGULAR = Map.of("labels", "label", "states", "state", "endings", "ending", "causes", "cause");

    /** Returns a query of the members of records and maps; what is null is left out. */
    static String query(Map<String, ? extends @Nullable Object> values) {
        StringJoiner query = new StringJoiner("&", "?", "").setEmptyValue("");
        values.forEach((name, value) -> {
            String key = SINGULAR.getOrDefault(name, name);
            if (value instanceof Map<?, ?> labels) {
                labels.forEach((k, v) -> query.add(key + "=" + escape(k + "=" + v)));
            } else if (value instanceof List<?> list) {
                list.forEach(one -> query.add(key + "=" + escape(String.valueOf(one))));
            } else if (value != null) {
                query.add(key + "=" + escape(String.valueOf(encode(value))));
            }
        });
        return query.toString();
    }

    /** Reads the headers Retry-After, seconds or a date as load balancers send it, and Date, when the answer was sent. */
    static @Nullable Duration retryAfter(Optional<String> retryAfter, Optional<String> date, Instant now) {
        String text = retryAfter.orElse("");
        if (text.matches("[0-9]{1,9}")) {
            return Duration.ofSeconds(Long.parseLong(text));
        }
        try {
            Instant until = ZonedDateTime.parse(text, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            Instant sent = date.isEmpty() ? now : ZonedDateTime.parse(date.get(), DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            return until.isAfter(sent) ? Duration.between(sent, until) : Duration.ZERO;
        } catch (DateTimeException e) {
            return null;
        }
    }

    // These mean the same from the server and from a load balancer in front of it. Other statuses do not: the 404 of a page is of no timer.
    private static final Map<Integer, String> STATUSES = Map.of(429, "overloaded", 502, "unavailable", 503, "unavailable", 504, "unavailable");

    /** Returns the exception of an answer. One that is no problem comes from something in between, such as a load balancer. */
    static ApiException problem(Transport.Reply reply, @Nullable Duration retryAfter) {
        if (reply.header("Content-Type").split(";")[0].trim().equals("application/problem+json")) {
            try {
                Problem problem = decode(Problem.class, object(reply.text()));
                if (problem.code() != null) {
                    return ApiException.of(problem, new ApiException.Details(retryAfter, null, null));
                }
            } catch (IllegalArgumentException | ClassCastException e) {
                // cut off
            }
        }
        return unexpected(reply, retryAfter);
    }

    /** Returns the exception of an answer that is not as the server's are, with where it is from. */
    static ApiException unexpected(Transport.Reply reply, @Nullable Duration retryAfter) {
        int status = reply.status();
        String text = reply.text().substring(0, Math.min(reply.text().length(), 200));
        String detail = "unexpected answer of " + reply.url().split("\\?", 2)[0] + ": HTTP status " + status + (text.isEmpty() ? "" : ": " + text);
        Problem problem = new Problem("about:blank", "HTTP status " + status, status, STATUSES.getOrDefault(status, "unexpected"), detail, List.of());
        return ApiException.of(problem, new ApiException.Details(retryAfter, null, null));
    }
}
