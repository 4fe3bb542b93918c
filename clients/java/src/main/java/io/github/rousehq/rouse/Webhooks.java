package io.github.rousehq.rouse;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import org.jspecify.annotations.Nullable;

/**
 * Verifies callbacks: signatures {@code v1} (HMAC) and {@code v1a} (Ed25519) of Standard Webhooks, and the identity of a fire.
 *
 * <p>A key is a secret, {@code whsec_…}, which verifies signatures {@code v1}, or a public key, {@code whpk_…}, which verifies signatures
 * {@code v1a}. {@code rouse signing reveal} prints both; {@link RouseClient#revealSigningKeys()} returns them. During a rotation, give the old
 * key and the new one.
 *
 * <p>Headers are a function from a name to a value, such as {@code request::getHeader} of servlets, or a map of lists, such as those of the
 * JDK's server and of Spring. The headers {@code ce-…} are not signed: {@code ce-id} and {@code ce-time} have the values of
 * {@link Identity#fireId()} and {@link Identity#due()}, which are.
 */
public final class Webhooks {
    /** The maximum difference between a signature's time and the verifier's, in the past or the future. */
    public static final Duration TOLERANCE = Duration.ofSeconds(300);

    /** How many signatures of a request are compared with a public key, which takes time. */
    private static final int MAX_PUBLIC = 16;

    /** The headers of an identity, in the order in which they are signed. */
    private static final List<String> IDENTITY = List.of(
        "rouse-namespace", "rouse-timer", "rouse-fire-id", "rouse-due", "rouse-attempt", "rouse-token", "rouse-generation", "rouse-manual", "rouse-last");

    private Webhooks() {}

    /**
     * Checks that a callback was signed with one of the keys, at most {@link #TOLERANCE} from now. The headers {@code rouse-…} are not
     * covered: use {@link #verifyIdentity(Collection, Function, byte[])} for them.
     *
     * <pre>{@code
     * Map<String, String> headers = Map.of("webhook-id", "1", "webhook-timestamp", "1700000000", "webhook-signature", "v1,Z3Vlc3NlZA==");
     * try {
     *     Webhooks.verify(List.of("whsec_" + "A".repeat(32)), headers::get, "{}".getBytes(), Instant.ofEpochSecond(1_700_000_000));
     * } catch (InvalidSignatureException e) {
     *     System.out.println(e.getMessage()); // no signature matches
     * }
     * }</pre>
     *
     * @param keys secrets and public keys
     * @param headers returns a header of the request, by its name in lower case
     * @param body the bytes of the request, unchanged, before they are parsed
     * @param now in place of the current time
     * @throws InvalidSignatureException if it is not signed, or too old, or no key matches
     */
    public static void verify(Collection<String> keys, Function<String, @Nullable String> headers, byte[] body, Instant now) {
        find(keys, headers, body, now, null);
    }

    /**
     * Checks that a callback was signed with one of the keys, now.
     *
     * @param keys secrets and public keys
     * @param headers returns a header of the request, by its name in lower case
     * @param body the bytes of the request, unchanged, before they are parsed
     * @throws InvalidSignatureException if it is not signed, or too old, or no key matches
     */
    public static void verify(Collection<String> keys, Function<String, @Nullable String> headers, byte[] body) {
        verify(keys, headers, body, Instant.now());
    }

    /**
     * Checks that a callback was signed with one of the keys, now.
     *
     * @param keys secrets and public keys
     * @param headers of the request; the case of names does not matter
     * @param body the bytes of the request, unchanged, before they are parsed
     * @throws InvalidSignatureException if it is not signed, or too old, or no key matches
     */
    public static void verify(Collection<String> keys, Map<String, List<String>> headers, byte[] body) {
        verify(keys, of(headers), body);
    }

    /**
     * Checks a callback as {@link #verify(Collection, Function, byte[], Instant)} does, and that the same key signed the identity of its fire,
     * which it returns. A batch has no identity: its fires are in its body.
     *
     * @param keys secrets and public keys
     * @param headers returns a header of the request, by its name in lower case
     * @param body the bytes of the request, unchanged, before they are parsed
     * @param now in place of the current time
     * @return which fire it is
     * @throws InvalidSignatureException if it is not signed, or too old, or no key matches
     */
    public static Identity verifyIdentity(Collection<String> keys, Function<String, @Nullable String> headers, byte[] body, Instant now) {
        List<String> values = new ArrayList<>();
        StringBuilder content = new StringBuilder("rouse-identity-v1\n");
        for (String name : IDENTITY) {
            String value = header(headers, name);
            if (value.isEmpty() || value.contains("\n")) {
                throw new InvalidSignatureException("the request is not signed: a header of the fire's identity is missing");
            }
            values.add(value);
            content.append(value).append('\n');
        }
        String signatures = header(headers, "rouse-signature");
        if (signatures.isEmpty()) {
            throw new InvalidSignatureException("the request is not signed: a header of the fire's identity is missing");
        }
        find(keys, headers, body, now, (key, signature) -> key.find(signatures, (content + signature).getBytes(StandardCharsets.UTF_8)) != null);
        if (!values.get(2).equals(header(headers, "webhook-id"))) {
            throw new InvalidSignatureException("no signature matches");
        }
        try {
            return new Identity(values.get(0), Wire.unescape(values.get(1)), values.get(2), OffsetDateTime.parse(values.get(3)).toInstant(),
                Long.parseLong(values.get(4)), Long.parseLong(values.get(5)), Long.parseLong(values.get(6)), values.get(7).equals("true"),
                values.get(8).equals("true"));
        } catch (RuntimeException e) { // signed by another program with this key
            throw new InvalidSignatureException("the fire's identity cannot be read: " + e.getMessage());
        }
    }

    /**
     * Checks a callback as {@link #verify(Collection, Function, byte[])} does, and that the same key signed the identity of its fire, which
     * it returns.
     *
     * @param keys secrets and public keys
     * @param headers returns a header of the request, by its name in lower case
     * @param body the bytes of the request, unchanged, before they are parsed
     * @return which fire it is
     * @throws InvalidSignatureException if it is not signed, or too old, or no key matches
     */
    public static Identity verifyIdentity(Collection<String> keys, Function<String, @Nullable String> headers, byte[] body) {
        return verifyIdentity(keys, headers, body, Instant.now());
    }

    /**
     * Checks a callback as {@link #verify(Collection, Map, byte[])} does, and that the same key signed the identity of its fire, which it
     * returns.
     *
     * @param keys secrets and public keys
     * @param headers of the request; the case of names does not matter
     * @param body the bytes of the request, unchanged, before they are parsed
     * @return which fire it is
     * @throws InvalidSignatureException if it is not signed, or too old, or no key matches
     */
    public static Identity verifyIdentity(Collection<String> keys, Map<String, List<String>> headers, byte[] body) {
        return verifyIdentity(keys, of(headers), body);
    }

    private static Function<String, @Nullable String> of(Map<String, List<String>> headers) {
        return name -> headers.entrySet().stream().filter(e -> name.equalsIgnoreCase(e.getKey())).map(e -> String.join(", ", e.getValue())).findFirst().orElse(null);
    }

    private static String header(Function<String, @Nullable String> headers, String name) {
        String value = headers.apply(name);
        return value == null ? "" : value;
    }

    /** What else a key has to have signed, given its signature over the body. */
    private interface More {
        boolean holds(Key key, String signature);
    }

    /** Looks for a key that has signed the body, and with whose signature over the body more agrees. */
    private static void find(Collection<String> keys, Function<String, @Nullable String> headers, byte[] body, Instant now, @Nullable More more) {
        String id = header(headers, "webhook-id");
        String stamp = header(headers, "webhook-timestamp");
        String signatures = header(headers, "webhook-signature");
        if (id.isEmpty() || stamp.isEmpty() || signatures.isEmpty()) {
            throw new InvalidSignatureException("the request is not signed: a webhook- header is missing");
        }
        if (!stamp.matches("[0-9]{1,12}")) {
            throw new InvalidSignatureException("the signature's time is no Unix time");
        }
        long at = Long.parseLong(stamp);
        if (Duration.between(Instant.ofEpochSecond(at), now).abs().compareTo(TOLERANCE) > 0) {
            throw new InvalidSignatureException("the signature is too old or too new");
        }
        byte[] head = (id + "." + at + ".").getBytes(StandardCharsets.UTF_8);
        byte[] message = new byte[head.length + body.length];
        System.arraycopy(head, 0, message, 0, head.length);
        System.arraycopy(body, 0, message, head.length, body.length);
        for (String text : keys) {
            Key key = text.startsWith("whpk_") ? new Public(text) : new Secret(text);
            String one = key.find(signatures, message);
            if (one != null && (more == null || more.holds(key, one))) {
                return;
            }
        }
        throw new InvalidSignatureException("no signature matches");
    }

    /** A key that verifies. */
    private interface Key {
        /** Returns the first of the signatures that is of a message and this key. */
        @Nullable String find(String signatures, byte[] message);
    }

    /** A key of signatures v1. */
    private static final class Secret implements Key {
        private final SecretKeySpec key;

        Secret(String text) {
            key = new SecretKeySpec(decoded(text.startsWith("whsec_") ? text.substring(6) : text, 24, 64, "whsec_"), "HmacSHA256");
        }

        @Override
        public @Nullable String find(String signatures, byte[] message) {
            byte[] want;
            try {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(key);
                want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(message))).getBytes(StandardCharsets.UTF_8);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException(e);
            }
            for (String one : signatures.split(" ")) {
                if (MessageDigest.isEqual(one.getBytes(StandardCharsets.UTF_8), want)) {
                    return one;
                }
            }
            return null;
        }
    }

    /** A key of signatures v1a. */
    private static final class Public implements Key {
        /** What is before the bytes of a key in its X.509 form. */
        private static final byte[] HEAD = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

        private final PublicKey key;

        Public(String text) {
            byte[] form = java.util.Arrays.copyOf(HEAD, HEAD.length + 32);
            System.arraycopy(decoded(text.substring(5), 32, 32, "whpk_"), 0, form, HEAD.length, 32);
            try {
                key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(form));
            } catch (GeneralSecurityException e) {
                throw new IllegalArgumentException("the public key cannot be used: " + e.getMessage(), e);
            }
        }

        @Override
        public @Nullable String find(String signatures, byte[] message) {
            int tried = 0;
            for (String one : signatures.split(" ")) {
                if (!one.startsWith("v1a,")) {
                    continue;
                }
                if (++tried > MAX_PUBLIC) {
                    return null;
                }
                try {
                    Signature verifier = Signature.getInstance("Ed25519");
                    verifier.initVerify(key);
                    verifier.update(message);
                    if (verifier.verify(Base64.getDecoder().decode(one.substring(4)))) {
                        return one;
                    }
                } catch (SignatureException | IllegalArgumentException e) {
                    // no signature
                } catch (GeneralSecurityException e) {
                    throw new IllegalStateException(e);
                }
            }
            return null;
        }
    }

    /** Returns the bytes of a key. The exception does not contain it. */
    private static byte[] decoded(String text, int shortest, int longest, String prefix) {
        byte[] key;
        try {
            key = Base64.getDecoder().decode(text);
        } catch (IllegalArgumentException e) {
            key = new byte[0];
        }
        if (key.length < shortest || key.length > longest) {
            String size = shortest == longest ? String.valueOf(shortest) : shortest + " to " + longest;
            throw new IllegalArgumentException("a key is \"" + prefix + "\" and the base64 form of " + size + " bytes");
        }
        return key;
    }
}
