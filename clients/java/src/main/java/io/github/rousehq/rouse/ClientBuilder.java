package io.github.rousehq.rouse;

import java.nio.file.Path;
import java.time.Duration;

import javax.net.ssl.SSLContext;

import org.jspecify.annotations.Nullable;

/** Builds clients. Settings that are left out are read from the environment, as the command line reads them. */
public final class ClientBuilder {
    @Nullable String server;
    @Nullable String namespace;
    @Nullable String key;
    @Nullable Path keyFile;
    @Nullable Path ca;
    @Nullable Path clientCert;
    @Nullable Path clientKey;
    @Nullable SSLContext tls;
    Duration timeout = Duration.ofSeconds(30);
    Duration patience = Duration.ofSeconds(30);

    ClientBuilder() {}

    /**
     * Sets the address of the server. Without a scheme, connections to this host are in plain text, others use TLS.
     *
     * @param server {@code HOST:PORT} or a URL; several nodes with commas between. Default {@code ROUSE_SERVER}, or {@code 127.0.0.1:7411}
     * @return this
     */
    public ClientBuilder server(String server) {
        this.server = server;
        return this;
    }

    /**
     * Sets the namespace of the timers.
     *
     * @param namespace default {@code ROUSE_NAMESPACE}, or {@code default}. {@code -} is all namespaces, for lists
     * @return this
     */
    public ClientBuilder namespace(String namespace) {
        this.namespace = namespace;
        return this;
    }

    /**
     * Sets the API key. To another host it is sent only under TLS.
     *
     * @param key its text; default {@code ROUSE_KEY}
     * @return this
     */
    public ClientBuilder key(String key) {
        this.key = key;
        return this;
    }

    /**
     * Sets the file with the API key.
     *
     * @param file default {@code ROUSE_KEY_FILE}
     * @return this
     */
    public ClientBuilder keyFile(Path file) {
        this.keyFile = file;
        return this;
    }

    /**
     * Sets the authorities of the server's certificate.
     *
     * @param file in PEM; default {@code ROUSE_CA}, or those of the JDK
     * @return this
     */
    public ClientBuilder ca(Path file) {
        this.ca = file;
        return this;
    }

    /**
     * Sets the certificate of this client, for mutual TLS. It is read again when its file, or that of its key, has changed.
     *
     * @param file in PEM; default {@code ROUSE_CLIENT_CERT}
     * @return this
     */
    public ClientBuilder clientCert(Path file) {
        this.clientCert = file;
        return this;
    }

    /**
     * Sets the private key of the certificate.
     *
     * @param file in PEM (PKCS #8); default {@code ROUSE_CLIENT_KEY}, or the file of the certificate
     * @return this
     */
    public ClientBuilder clientKey(Path file) {
        this.clientKey = file;
        return this;
    }

    /**
     * Sets what makes TLS connections, in place of files with certificates: for stores of keys that the JDK has, for example.
     *
     * @param context a context that is initialized
     * @return this
     */
    public ClientBuilder sslContext(SSLContext context) {
        this.tls = context;
        return this;
    }

    /**
     * Sets the time in which the server has to send an answer, or the next part of it.
     *
     * @param timeout default 30 seconds
     * @return this
     */
    public ClientBuilder timeout(Duration timeout) {
        this.timeout = timeout;
        return this;
    }

    /**
     * Sets for how long calls are retried. Calls that would do more when they are repeated, such as {@code run}, have an idempotency key:
     * the server carries out once what has the same key.
     *
     * @param patience default 30 seconds; none is no retries
     * @return this
     */
    public ClientBuilder patience(Duration patience) {
        this.patience = patience;
        return this;
    }

    /**
     * Returns a client that blocks.
     *
     * @return a client with these settings
     * @throws IllegalArgumentException if a setting is wrong
     */
    public RouseClient build() {
        return new RouseClient(buildAsync());
    }

    /**
     * Returns a client whose methods return futures.
     *
     * @return a client with these settings
     * @throws IllegalArgumentException if a setting is wrong
     */
    public RouseAsyncClient buildAsync() {
        Settings settings = Settings.of(this, System.getenv());
        return new RouseAsyncClient(new Transport(settings), settings.namespace(), null);
    }
}
