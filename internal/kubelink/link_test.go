package kubelink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is what the server of a test knows of a request.
type seen struct{ Authorization, Certificate, Path string }

// serve starts an API server, which answers with what it has seen, or with a status.
func serve(t *testing.T, status func(r *http.Request) int) (s *httptest.Server, ca []byte) {
	t.Helper()
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := seen{Authorization: r.Header.Get("Authorization"), Path: r.URL.Path}
		if len(r.TLS.PeerCertificates) > 0 {
			got.Certificate = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		if status != nil {
			w.Header().Set("Location", "https://elsewhere.invalid/")
			w.WriteHeader(status(r))
		}
		_ = json.NewEncoder(w).Encode(got)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// pair returns a certificate of a client, and its key, in PEM form.
func pair(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	form.Subject.CommonName = name
	raw, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// write writes files into a folder, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// kubeconfig returns a kubeconfig with the fields of a cluster and of a user.
func kubeconfig(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts:\n- {name: a, context: {cluster: other, user: other}}\n" +
		"- {name: b, context: {cluster: c, user: u, namespace: workers}}\n" +
		"clusters:\n- {name: other, cluster: {server: 'https://other.invalid'}}\n- name: c\n  cluster: {" + cluster + "}\n" +
		"users:\n- {name: other, user: {as: admin}}\n- name: u\n  user: {" + user + "}\n"
}

// ask makes a request, and returns what the server has seen.
func ask(t *testing.T, l *Link) (got seen, err error) {
	t.Helper()
	defer l.Close()
	return got, l.Do(t.Context(), http.MethodGet, l.Collection("apps/v1", l.Namespace, "deployments"), "", nil, &got)
}

// TestCredentials checks all forms of credentials, in files and in the kubeconfig, with relative paths.
func TestCredentials(t *testing.T) {
	s, ca := serve(t, nil)
	certificate, key := pair(t, "client")
	data := base64.StdEncoding.EncodeToString
	plugin := fmt.Sprintf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":%q,"clientKeyData":%q,"token":"made"}}`, certificate, key)
	files := map[string]string{"ca.crt": string(ca), "tls.crt": string(certificate), "tls.key": string(key), "token": "written\n",
		"plugin": "#!/bin/sh\n[ \"$1$A\" = xy ] && cat \"${0%/*}/answer\"\n", "answer": plugin}
	for name, c := range map[string]struct {
		cluster, user string
		want          seen
	}{
		"token":         {"certificate-authority: ca.crt", "token: given", seen{Authorization: "Bearer given"}},
		"file":          {"certificate-authority-data: " + data(ca), "token: given, tokenFile: token", seen{Authorization: "Bearer written"}},
		"password":      {"certificate-authority: ca.crt", "username: a, password: b", seen{Authorization: "Basic " + data([]byte("a:b"))}},
		"certificate":   {"certificate-authority: ca.crt", "client-certificate: tls.crt, client-key: tls.key", seen{Certificate: "client"}},
		"inline":        {"insecure-skip-tls-verify: true, extensions: [{name: x, extension: {}}]", "client-certificate-data: " + data(certificate) + ", client-key-data: " + data(key), seen{Certificate: "client"}},
		"plugin":        {"certificate-authority: ca.crt", "exec: {apiVersion: v1, command: ./plugin, args: [x], env: [{name: A, value: y}], provideClusterInfo: true, interactiveMode: Never}", seen{Authorization: "Bearer made", Certificate: "client"}},
		"another name":  {"certificate-authority: ca.crt, tls-server-name: example.com", "", seen{}},
		"no credential": {"certificate-authority: ca.crt", "", seen{}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "plugin" && runtime.GOOS == "windows" {
				t.Skip("the plugin is a script")
			}
			files["config"] = kubeconfig("server: '"+s.URL+"/prefix', "+c.cluster, c.user)
			l, err := Connect("kubeconfig", filepath.Join(write(t, files), "config"))
			if err != nil {
				t.Fatal(err)
			}
			c.want.Path = "/prefix/apis/apps/v1/namespaces/workers/deployments"
			if got, err := ask(t, l); err != nil || got != c.want {
				t.Errorf("the server saw %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// TestPod checks the service account of a pod, whose token Kubernetes replaces.
func TestPod(t *testing.T) {
	s, ca := serve(t, nil)
	account = write(t, map[string]string{"ca.crt": string(ca), "token": "first", "namespace": "mine\n"})
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", at.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", at.Port())
	l, err := Connect("kubeconfig", "")
	if err != nil || l.Namespace != "mine" {
		t.Fatal(l, err)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(account, "token"), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ask(t, l); err != nil || got.Authorization != "Bearer "+token {
			t.Errorf("%+v, %v; want %s", got, err, token)
		}
	}
}

// A plugin that is slower than the request that needs its credential finishes: the next request has it.
func TestASlowPluginFinishes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the plugin is a script")
	}
	s, _ := serve(t, func(*http.Request) int { return http.StatusOK })
	dir := write(t, map[string]string{
		"config": kubeconfig("server: '"+s.URL+"', insecure-skip-tls-verify: true", "exec: {command: ./plugin}"),
		"plugin": "#!/bin/sh\ncd ${0%/*}; echo x >>count; while ! [ -e go ]; do sleep 0.02; done\n" +
			`echo '{"kind":"ExecCredential","status":{"token":"slow"}}'`,
	})
	l, err := Connect("kubeconfig", filepath.Join(dir, "config"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 { // of one run
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := l.Do(ctx, http.MethodGet, l.At("x"), "", nil, new(seen))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not made a credential yet") {
			t.Errorf("without a credential: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, l); err != nil || got.Authorization != "Bearer slow" {
		t.Errorf("%+v, %v", got, err)
	}
	if runs, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(runs) != "x\n" {
		t.Errorf("it ran for %q, %v; want one run", runs, err)
	}
}

// TestPlugin checks that a credential is used until it expires or is refused.
func TestPlugin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the plugin is a script")
	}
	refuses := ""
	s, _ := serve(t, func(r *http.Request) int {
		if r.Header.Get("Authorization") == refuses {
			return http.StatusUnauthorized
		}
		return http.StatusOK
	})
	dir := write(t, map[string]string{
		"config": kubeconfig("server: '"+s.URL+"', insecure-skip-tls-verify: true", "exec: {command: ./plugin}"),
		"plugin": "#!/bin/sh\ncd ${0%/*}; echo x >>count; n=$(($(wc -l <count)))\n" +
			`echo "{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$n\",\"expirationTimestamp\":\"$(cat expires)\"}}"`,
	})
	expires := func(at time.Time) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "expires"), []byte(at.UTC().Format(time.RFC3339)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expires(time.Now())
	l, err := Connect("kubeconfig", filepath.Join(dir, "config"))
	if err != nil {
		t.Fatal(err)
	}
	want := func(token string) {
		t.Helper()
		if got, err := ask(t, l); err != nil || got.Authorization != "Bearer "+token {
			t.Errorf("%+v, %v; want the token %s", got, err, token)
		}
	}
	_, _ = ask(t, l) // a handshake asks for a certificate: one more credential that is expired at once
	if err := os.WriteFile(filepath.Join(dir, "count"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expires(time.Now().Add(time.Hour))
	want("1")
	want("1")
	refuses = "Bearer 1"
	if _, err := ask(t, l); !IsStatus(err, http.StatusUnauthorized) {
		t.Errorf("a refusal gives %v", err)
	}
	want("2")
	if err := os.WriteFile(filepath.Join(dir, "plugin"), []byte("#!/bin/sh\necho nothing"), 0o700); err != nil {
		t.Fatal(err)
	}
	refuses = "Bearer 2"
	_, _ = ask(t, l)
	if _, err := ask(t, l); err == nil || !strings.Contains(err.Error(), "no ExecCredential") {
		t.Errorf("an answer that is none gives %v", err)
	}
}

// TestRefusedConfigurations checks that what cannot be used, or would be ignored, is an error.
func TestRefusedConfigurations(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, ca := serve(t, nil)
	files := map[string]string{"ca.crt": string(ca), "nonsense": "-"}
	const server = "server: 'https://127.0.0.1:1'"
	for want, config := range map[string]string{
		`no context "b"`:                  "current-context: b",
		`no context ""`:                   "",
		"cannot be used":                  "\t{",
		"no address such as":              kubeconfig("server: 127.0.0.1:1", ""),
		`user u: json: unknown field "as`: kubeconfig(server, "as: admin"),
		`unknown field "auth-provider"`:   kubeconfig(server, "auth-provider: {name: oidc}"),
		`cluster c: json: unknown field`:  kubeconfig(server+", certificate_authority: x", ""),
		"remove one of them":              kubeconfig(server+", certificate-authority: ca.crt, insecure-skip-tls-verify: true", ""),
		"no certificate in PEM form":      kubeconfig(server+", certificate-authority: nonsense", ""),
		"client-certificate":              kubeconfig(server, "client-certificate: nonsense, client-key: nonsense"),
		"no such file":                    kubeconfig(server+", certificate-authority: missing", ""),
		`names the user "u"`:              strings.Replace(kubeconfig(server, ""), "name: u", "name: w", 1),
	} {
		files["config"] = config
		file := filepath.Join(write(t, files), "config")
		if _, err := Connect("leader-kubeconfig", file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "leader-kubeconfig") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := Connect("kubeconfig", ""); err == nil || !strings.Contains(err.Error(), "this is no pod") {
		t.Errorf("outside of a pod: %v", err)
	}
}

// TestAnswers checks errors of the API server, and that a redirect does not carry the credentials elsewhere.
func TestAnswers(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusFound, http.StatusInternalServerError} {
		s, _ := serve(t, func(*http.Request) int { return status })
		dir := write(t, map[string]string{"config": kubeconfig("server: '"+s.URL+"', insecure-skip-tls-verify: true", "token: secret")})
		l, err := Connect("kubeconfig", filepath.Join(dir, "config"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t, l); !IsStatus(err, status) || strings.Contains(err.Error(), "docs/pools.md") != (status == http.StatusForbidden) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		text                               string
		label, subdomain, value, qualified bool
	}{
		{"", false, false, true, false},
		{"a", true, true, true, true},
		{"a-1", true, true, true, true},
		{"-a", false, false, false, false},
		{"a-", false, false, false, false},
		{"a.b", false, true, true, true},
		{"a..b", false, false, true, true},
		{"A_b", false, false, true, true},
		{"a b", false, false, false, false},
		{"a\n", false, false, false, false},
		{long, false, true, false, false},
		{strings.Repeat("a.", 126) + "aa", false, false, false, false},
		{"example.com/a", false, false, false, true},
		{"example.com/", false, false, false, false},
		{"/a", false, false, false, false},
		{"a/b/c", false, false, false, false},
	} {
		if got := [4]bool{IsLabel(c.text), IsSubdomain(c.text), IsLabelValue(c.text), IsQualifiedName(c.text)}; got != [4]bool{c.label, c.subdomain, c.value, c.qualified} {
			t.Errorf("%q: %v", c.text, got)
		}
	}
}
