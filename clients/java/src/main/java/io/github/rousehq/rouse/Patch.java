package io.github.rousehq.rouse;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

import org.jspecify.annotations.Nullable;

/**
 * Changes of members of a timer's spec, and nothing else of it: a JSON merge patch (RFC 7396). Members have the names of the HTTP API.
 *
 * <pre>{@code
 * Patch patch = new Patch().set("labels", Map.of("team", "press")).set("retry", Retry.builder().attempts(3).build()).remove("deadline");
 * System.out.println(patch); // {"labels":{"team":"press"},"retry":{"attempts":3},"deadline":null}
 * }</pre>
 */
public final class Patch {
    private final Map<String, @Nullable Object> members = new LinkedHashMap<>();

    /** Makes a patch that changes nothing. */
    public Patch() {}

    /**
     * Returns a patch of a JSON text.
     *
     * @param text an object
     * @return its patch
     * @throws IllegalArgumentException if the text is no JSON object
     */
    public static Patch json(String text) {
        Patch patch = new Patch();
        patch.members.putAll(Wire.object(text));
        return patch;
    }

    /**
     * Sets a member. Of an object, such as labels or {@code retry}, only the members that the value has are changed; a {@link Payload} is
     * replaced as a whole.
     *
     * @param member its name, such as target
     * @param value a value as Java or the records of the model have it
     * @return this
     */
    public Patch set(String member, Object value) {
        if (value instanceof Payload payload) {
            members.keySet().removeAll(Set.of("payload", "payload_base64"));
            members.putAll(payload.members());
        } else if (members.get(member) instanceof Map<?, ?> before && Wire.encode(value) instanceof Map<?, ?> more) {
            Map<Object, @Nullable Object> all = new LinkedHashMap<>(before);
            all.putAll(more);
            members.put(member, all);
        } else {
            members.put(member, Wire.encode(value));
        }
        return this;
    }

    /**
     * Removes a member, or a member of an object: {@code remove("labels", "team")}.
     *
     * @param member its name
     * @param inner names of members in it, the outer one first
     * @return this
     */
    public Patch remove(String member, String... inner) {
        Map<String, @Nullable Object> at = members;
        String last = member;
        for (String name : inner) {
            at = objectIn(at, last);
            last = name;
        }
        at.put(last, null);
        return this;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, @Nullable Object> objectIn(Map<String, @Nullable Object> members, String name) {
        Map<String, @Nullable Object> object = new LinkedHashMap<>(members.get(name) instanceof Map<?, ?> before ? (Map<String, @Nullable Object>) before : Map.of());
        members.put(name, object);
        return object;
    }

    /** Returns its JSON. */
    @Override
    public String toString() {
        return Json.write(members);
    }
}
