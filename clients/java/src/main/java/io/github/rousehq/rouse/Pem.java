package io.github.rousehq.rouse;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;

import org.jspecify.annotations.Nullable;

/** Certificates and keys of PEM files, which the JDK reads in stores of its own only. */
final class Pem {
    private Pem() {}

    private static final Pattern KEY = Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]*)-----END PRIVATE KEY-----");

    /** Returns a context for connections to servers of the given authorities, or those of the system, with a certificate of this client. */
    static SSLContext context(@Nullable Path ca, @Nullable Path cert, @Nullable Path key) {
        try {
            TrustManager[] trust = null;
            if (ca != null) {
                KeyStore authorities = empty();
                int n = 0;
                for (Certificate authority : certificates(ca)) {
                    authorities.setCertificateEntry("ca" + n++, authority);
                }
                TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                factory.init(authorities);
                trust = factory.getTrustManagers();
            }
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(cert == null ? null : new KeyManager[] {new CertificateFiles(cert, key == null ? cert : key)}, trust, null);
            return context;
        } catch (GeneralSecurityException e) {
            throw new IllegalArgumentException("the certificates cannot be used: " + e.getMessage(), e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The certificate of the client: it is read again when its files have changed, before a connection presents it. */
    private static final class CertificateFiles extends X509ExtendedKeyManager {
        private static final String ALIAS = "client";

        /** What was read, and when the files were written. */
        private record Pair(X509Certificate[] chain, PrivateKey key, List<FileTime> written) {}

        private final Path cert;
        private final Path key;
        private volatile Pair last;

        CertificateFiles(Path cert, Path key) throws GeneralSecurityException, IOException {
            this.cert = cert;
            this.key = key;
            last = read();
        }

        private List<FileTime> written() throws IOException {
            return List.of(Files.getLastModifiedTime(cert), Files.getLastModifiedTime(key));
        }

        private Pair read() throws GeneralSecurityException, IOException {
            List<FileTime> written = written();
            X509Certificate[] chain = certificates(cert).toArray(new X509Certificate[0]);
            PrivateKey secret = privateKey(key);
            check(secret, chain[0].getPublicKey()); // they may not fit together while they are replaced
            return new Pair(chain, secret, written);
        }

        private static void check(PrivateKey secret, PublicKey open) throws GeneralSecurityException {
            String name = switch (secret.getAlgorithm()) {
                case "EC" -> "SHA256withECDSA";
                case "RSA" -> "SHA256withRSA";
                default -> "Ed25519";
            };
            Signature signature = Signature.getInstance(name);
            signature.initSign(secret);
            byte[] made = signature.sign();
            signature.initVerify(open);
            if (!signature.verify(made)) {
                throw new GeneralSecurityException("the private key is not that of the certificate");
            }
        }

        private @Nullable String choose(String... types) {
            try {
                if (!written().equals(last.written)) {
                    last = read();
                }
            } catch (GeneralSecurityException | IOException | IllegalArgumentException e) {
                // what was read before is used until they can be read
            }
            String algorithm = last.key.getAlgorithm();
            return List.of(types).stream().anyMatch(type -> type.equals(algorithm) || type.equals("EdDSA") && algorithm.equals("Ed25519")) ? ALIAS : null;
        }

        @Override
        public @Nullable String chooseEngineClientAlias(String[] types, Principal @Nullable [] issuers, @Nullable SSLEngine engine) {
            return choose(types);
        }

        @Override
        public @Nullable String chooseClientAlias(String[] types, Principal @Nullable [] issuers, @Nullable Socket socket) {
            return choose(types);
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            return last.chain.clone();
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            return last.key;
        }

        @Override
        public String @Nullable [] getClientAliases(String type, Principal @Nullable [] issuers) {
            return new String[] {ALIAS};
        }

        @Override
        public String @Nullable [] getServerAliases(String type, Principal @Nullable [] issuers) {
            return null;
        }

        @Override
        public @Nullable String chooseServerAlias(String type, Principal @Nullable [] issuers, @Nullable Socket socket) {
            return null;
        }
    }

    private static KeyStore empty() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Collection<? extends Certificate> certificates(Path file) throws GeneralSecurityException, IOException {
        Collection<? extends Certificate> found = CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(Files.readAllBytes(file)));
        if (found.isEmpty()) {
            throw new IllegalArgumentException(file + " has no certificate in PEM");
        }
        return found;
    }

    private static PrivateKey privateKey(Path file) throws GeneralSecurityException, IOException {
        Matcher key = KEY.matcher(Files.readString(file));
        if (!key.find()) {
            throw new IllegalArgumentException(file + " has no PRIVATE KEY in PEM (PKCS #8): convert it with openssl pkcs8 -topk8 -nocrypt");
        }
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(key.group(1)));
        for (String algorithm : List.of("EC", "RSA", "Ed25519")) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(spec);
            } catch (InvalidKeySpecException e) {
                // another algorithm
            }
        }
        throw new IllegalArgumentException(file + " has a private key of an unknown algorithm: use EC, RSA or Ed25519");
    }
}
