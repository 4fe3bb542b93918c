package webhook_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

// signs returns the option of a sink that signs for every namespace with the same secrets.
func signs(secrets ...string) func(string) (*webhook.Signing, error) {
	s, err := webhook.ParseSigning(secrets...)
	return func(string) (*webhook.Signing, error) { return s, err }
}

// A key of each kind, and a second pair as during a rotation.
func pairs(t *testing.T) (keys []webhook.Key, secrets, publics []string) {
	for range 2 {
		secret := webhook.NewSecret()
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, webhook.Key{HMAC: raw, Private: private})
		secrets, publics = append(secrets, secret), append(publics, webhook.PublicText(public))
	}
	return keys, secrets, publics
}

// Each of a namespace's keys, of either kind, verifies a request and its identity; what anybody changes of
// the identity is refused.
func TestIdentityIsSigned(t *testing.T) {
	keys, secrets, publics := pairs(t)
	signing := webhook.NewSigning(keys...)
	w := newWire(t, webhook.Options{Signing: func(string) (*webhook.Signing, error) { return signing, nil }}, receiver.Options{})
	f := w.fire()
	w.send(f)
	a := w.next()
	now := time.Now()
	want := webhook.Identity{Namespace: f.Namespace, Timer: f.Name, FireID: f.ID, Due: f.Due, Attempt: f.Attempt, Token: f.Token, Generation: f.Generation, Manual: f.Manual, Last: f.Last}
	for _, key := range append(secrets, publics...) {
		if err := webhook.Verify([]string{key}, a.Header, a.Body, now); err != nil {
			t.Errorf("%.12s: %v", key, err)
		}
		if got, err := webhook.VerifyIdentity([]string{key}, a.Header, a.Body, now); err != nil || got != want {
			t.Errorf("%.12s: %+v, %v; want %+v", key, got, err, want)
		}
	}
	_, otherSecrets, otherPublics := pairs(t)
	for _, key := range append(otherSecrets, otherPublics...) {
		if _, err := webhook.VerifyIdentity([]string{key}, a.Header, a.Body, now); !errors.Is(err, webhook.ErrSignature) {
			t.Errorf("a key of another namespace: %v", err)
		}
	}
	both := []string{secrets[1], publics[1]}
	for _, name := range []string{"Rouse-Namespace", "Rouse-Timer", "Rouse-Fire-Id", "Rouse-Due", "Rouse-Attempt", "Rouse-Token", "Rouse-Generation", "Rouse-Manual",
		"Rouse-Last", "Rouse-Signature", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		for how, change := range map[string]func(h http.Header){
			"another": func(h http.Header) { h.Set(name, other(name, h.Get(name))) },
			"none":    func(h http.Header) { h.Del(name) },
			"swapped": func(h http.Header) {
				list := strings.Fields(h.Get(name))
				if len(list) == 1 {
					list[0] = other(name, list[0])
				}
				if len(list) > 1 && name == "Webhook-Signature" {
					list = []string{"v1,AAAA"}
				} else if len(list) > 1 {
					list = strings.Fields(h.Get("Webhook-Signature"))
				}
				h.Set(name, strings.Join(list, " "))
			},
		} {
			h := a.Header.Clone()
			change(h)
			if got, err := webhook.VerifyIdentity(both, h, a.Body, now); err == nil {
				t.Errorf("%s of %s: passes as %+v", how, name, got)
			}
		}
	}
	if _, err := webhook.VerifyIdentity(both, a.Header, append(a.Body, ' '), now); err == nil {
		t.Error("another body passes")
	}
}

// other returns another value of the same form.
func other(name, v string) string {
	switch name {
	case "Rouse-Manual", "Rouse-Last":
		return strconv.FormatBool(v != "true")
	case "Rouse-Due":
		return "2027-01-31T09:00:00.124Z"
	case "Rouse-Signature", "Webhook-Signature":
		return strings.ReplaceAll(v, "v1", "v3")
	case "Rouse-Attempt", "Rouse-Token", "Rouse-Generation", "Webhook-Timestamp":
		n, _ := strconv.ParseUint(v, 10, 64)
		return strconv.FormatUint(n-1, 10)
	}
	return v + "x"
}

// A batch has no identity of its own, and its body is signed.
func TestBatchIsSignedWithoutIdentity(t *testing.T) {
	secret := webhook.NewSecret()
	w := newWire(t, webhook.Options{Signing: signs(secret)}, receiver.Options{Secrets: []string{secret}})
	f := w.fire()
	f.Spec.Webhook.Batch = 10
	w.send(f, f)
	a := w.next()
	if a.Signature != nil || a.Header.Get(webhook.HeaderIdentity) != "" {
		t.Errorf("%v, %v", a.Signature, a.Header)
	}
	if _, err := webhook.VerifyIdentity([]string{secret}, a.Header, a.Body, time.Now()); !errors.Is(err, webhook.ErrUnsigned) {
		t.Errorf("the identity of a batch: %v", err)
	}
}

// Headers have the values of their secrets; a fire whose secret is missing waits without an attempt; headers
// that the operator drops are not sent; and a receiver that answers with what it got does not make secrets
// visible.
func TestSecretsInHeaders(t *testing.T) {
	const marker = "marker-4711-marker"
	w := newWire(t, webhook.Options{DropHeaders: []string{"X-Internal", "X-Trace-*"}, Secret: func(ns, name, host string) (string, error) {
		if host != "127.0.0.1" {
			return "", errors.New("the secret is for another host than " + host)
		}
		switch name { // what the API refuses, and the store may have all the same
		case "lines":
			return "a\r\nX-Injected: " + marker, nil
		case "long":
			return strings.Repeat("x", 9000), nil
		}
		if ns == "default" && name == "token" {
			return marker, nil
		}
		return "", errors.New("the namespace " + ns + " has no secret " + name)
	}}, receiver.Options{Answer: receiver.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, "got "+r.Header.Get("Authorization")+marker[:9])
	})})
	f := w.fire()
	f.Spec.Webhook.Headers = map[string]string{"authorization": "Bearer {{secret:token}}, again {{secret:token}}", "x-internal": "1", "x-trace-id": "2", "X-Kept": "3"}
	o := w.send(f)[0]
	a := w.next()
	if got := a.Header.Get("Authorization"); got != "Bearer "+marker+", again "+marker {
		t.Errorf("sent %q", got)
	}
	if a.Header.Get("X-Internal")+a.Header.Get("X-Trace-Id") != "" || a.Header.Get("X-Kept") != "3" {
		t.Errorf("sent %v", a.Header)
	}
	if strings.Contains(o.Detail, marker[:6]) || !strings.Contains(o.Detail, "[secret]") {
		t.Errorf("the outcome shows what the receiver echoed: %+v", o)
	}
	f.Spec.Webhook.Headers["authorization"] = "{{secret:gone}}"
	if o := w.send(f)[0]; o.Verdict != rouse.Deferred || o.Cause != rouse.CauseNoSecret || !strings.Contains(o.Detail, "Authorization: the namespace default has no secret gone") {
		t.Errorf("a missing secret: %+v", o)
	}
	if text := w.sink.Obstacle("default", f.Spec); !strings.Contains(text, "no secret gone") {
		t.Errorf("the obstacle: %q", text)
	}
	for _, name := range []string{"lines", "long"} {
		f.Spec.Webhook.Headers["authorization"] = "{{secret:" + name + "}}"
		if o := w.send(f)[0]; o.Verdict != rouse.Deferred || o.Cause != rouse.CauseNoSecret || !strings.Contains(o.Detail, "cannot be sent with the value of its secret") || strings.Contains(o.Detail, marker) {
			t.Errorf("the secret %s: %+v", name, o)
		}
	}
	delete(f.Spec.Webhook.Headers, "authorization")
	for _, more := range []string{" x", "\r\nX-Injected: 1", "\x00"} {
		g, spec := f, *f.Spec
		spec.Target, g.Spec = spec.Target+more, &spec
		if o := w.send(g)[0]; o.Verdict != rouse.Rejected || o.Code != 0 || !strings.Contains(o.Detail, "characters that cannot be sent") {
			t.Errorf("a target with %q: %+v", more, o)
		}
	}
	if n, _ := w.r.Count(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
