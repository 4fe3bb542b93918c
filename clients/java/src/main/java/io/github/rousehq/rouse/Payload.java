package io.github.rousehq.rouse;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/**
 * The payload of a timer: JSON, which is kept byte for byte, or bytes.
 *
 * <p>Objects of your own are converted by the library that you use for JSON anyway: {@code Payload.json(mapper.writeValueAsString(order))},
 * and back {@code mapper.readValue(timer.payload().text(), Order.class)}.
 *
 * <pre>{@code
 * Payload payload = Payload.of(Map.of("invoice", 17));
 * System.out.println(payload.text()); // {"invoice":17}
 * System.out.println(Payload.json("{\"invoice\": 17.0}").text()); // {"invoice": 17.0}
 * System.out.println(Payload.bytes(new byte[] {0, 1}).isJson()); // false
 * }</pre>
 */
public final class Payload {
    private final @Nullable String json;
    private final byte[] bytes;

    private Payload(@Nullable String json, byte[] bytes) {
        this.json = json;
        this.bytes = bytes;
    }

    /**
     * Returns a payload of a JSON text.
     *
     * @param text one value
     * @return its payload
     * @throws IllegalArgumentException if the text is not JSON
     */
    public static Payload json(String text) {
        Json.parse(text);
        return new Payload(text, Json.bytes(text));
    }

    /**
     * Returns a payload of a value as Java has it.
     *
     * @param value a map, a list, a text, a number, a boolean or null
     * @return its payload
     * @throws IllegalArgumentException if the value is another one, or one that JSON does not have, such as NaN
     */
    public static Payload of(@Nullable Object value) {
        String text = Json.write(value);
        return new Payload(text, Json.bytes(text));
    }

    /**
     * Returns a payload of bytes, which need not be JSON.
     *
     * @param bytes what is delivered
     * @return their payload
     */
    public static Payload bytes(byte[] bytes) {
        return new Payload(null, bytes.clone());
    }

    /** Returns the payload of a member of a request or answer, as it was sent. */
    static Payload sent(String json) {
        return new Payload(json, json.getBytes(StandardCharsets.UTF_8));
    }

    static Payload decoded(String base64) {
        return new Payload(null, Base64.getDecoder().decode(base64));
    }

    /**
     * Returns whether it is JSON.
     *
     * @return false if it is bytes
     */
    public boolean isJson() {
        return json != null;
    }

    /**
     * Returns its text: that of the JSON, or the bytes read as UTF-8.
     *
     * @return the text
     */
    public String text() {
        return json != null ? json : new String(bytes, StandardCharsets.UTF_8);
    }

    /**
     * Returns its bytes.
     *
     * @return a copy
     */
    public byte[] bytes() {
        return bytes.clone();
    }

    /**
     * Returns the value of the JSON: a {@link Map} with its members in their order, a {@link List}, a {@link String}, a {@link Long}, a
     * {@link java.math.BigInteger} or {@link java.math.BigDecimal}, a {@link Boolean} or null.
     *
     * @return the value
     * @throws IllegalArgumentException if it is not JSON
     */
    public @Nullable Object value() {
        return Json.parse(text());
    }

    /** Returns the member of a request that has it. */
    Map<String, Object> members() {
        return json != null ? Map.of("payload", new Json.Raw(json)) : Map.of("payload_base64", Base64.getEncoder().encodeToString(bytes));
    }

    /** Compares texts of JSON, not their values. */
    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Payload p && isJson() == p.isJson() && Arrays.equals(bytes, p.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    @Override
    public String toString() {
        return json != null ? json : bytes.length + " bytes";
    }
}
