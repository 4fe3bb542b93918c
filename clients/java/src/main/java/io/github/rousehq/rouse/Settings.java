package io.github.rousehq.rouse;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import javax.net.ssl.SSLContext;

import org.jspecify.annotations.Nullable;

/** The checked settings of a client: addresses, TLS, credentials. The same names and defaults as those of the command line. */
record Settings(List<String> bases, String namespace, @Nullable String key, @Nullable SSLContext tls, Duration timeout, Duration patience) {

    /** Completes settings from the environment, and checks them. */
    static Settings of(ClientBuilder given, Map<String, String> environment) {
        Path ca = file(given.ca, environment, "ROUSE_CA");
        Path cert = file(given.clientCert, environment, "ROUSE_CLIENT_CERT");
        Path certKey = file(given.clientKey, environment, "ROUSE_CLIENT_KEY");
        boolean secure = ca != null || cert != null || given.tls != null;
        List<String> bases = new ArrayList<>();
        boolean encrypted = false;
        String key = keyOf(given, environment);
        for (String address : or(given.server, or(environment.get("ROUSE_SERVER"), "127.0.0.1:7411")).split(",", -1)) {
            String base = baseOf(address.trim(), secure);
            if (key != null && base.startsWith("http:") && !isLocal(URI.create(base).getHost())) {
                throw new IllegalArgumentException("a key is sent to " + base + " only under TLS: use https://");
            }
            encrypted |= base.startsWith("https:");
            bases.add(base);
        }
        SSLContext tls = !encrypted ? null : given.tls != null ? given.tls : secure ? Pem.context(ca, cert, certKey) : null;
        return new Settings(List.copyOf(bases), or(given.namespace, or(environment.get("ROUSE_NAMESPACE"), "default")), key, tls, given.timeout, given.patience);
    }

    private static @Nullable String keyOf(ClientBuilder given, Map<String, String> environment) {
        String key = given.key;
        Path file = file(given.keyFile, environment, "ROUSE_KEY_FILE");
        if (key == null && file != null) {
            try {
                key = Files.readString(file).strip().lines().findFirst().orElse("");
            } catch (IOException e) {
                throw new UncheckedIOException("the file of the key cannot be read: " + file, e);
            }
        }
        key = or(key, or(environment.get("ROUSE_KEY"), "")).strip();
        return key.isEmpty() ? null : key;
    }

    private static @Nullable Path file(@Nullable Path given, Map<String, String> environment, String name) {
        String named = environment.get(name);
        return given != null ? given : named == null || named.isEmpty() ? null : Path.of(named);
    }

    private static String or(@Nullable String given, String otherwise) {
        return given == null || given.isEmpty() ? otherwise : given;
    }

    /** Returns the URL of an address. Without a scheme, connections to this host are in plain text, others use TLS. */
    private static String baseOf(String address, boolean secure) {
        URI url;
        try {
            url = new URI(address.contains("://") ? address : "any://" + address);
        } catch (URISyntaxException e) {
            throw wrong(address);
        }
        String scheme = url.getScheme();
        boolean empty = url.getRawPath() == null || url.getRawPath().isEmpty() || url.getRawPath().equals("/");
        if (url.getHost() == null || !empty || url.getRawQuery() != null || url.getRawFragment() != null || url.getRawUserInfo() != null) {
            throw wrong(address);
        }
        if (!address.contains("://")) {
            scheme = isLocal(url.getHost()) && !secure ? "http" : "https";
        }
        if (!scheme.equals("http") && !scheme.equals("https")) {
            throw wrong(address);
        }
        return scheme + "://" + url.getRawAuthority();
    }

    private static IllegalArgumentException wrong(String address) {
        return new IllegalArgumentException("server \"" + address + "\": use HOST:PORT, http://HOST:PORT or https://HOST:PORT");
    }

    private static boolean isLocal(String host) {
        return host.equals("localhost") || host.equals("[::1]") || host.matches("127(\\.[0-9]{1,3}){3}");
    }
}
