package webhook_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rousehq/rouse/sink/webhook"
)

func signed(t *testing.T, secret, id string, at time.Time, body string) http.Header {
	t.Helper()
	s, err := webhook.Sign(secret, id, at.Unix(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", s)
	return h
}

// The reference library and this package verify each other's signatures.
func TestReferenceLibraryAgrees(t *testing.T) {
	secret, now := webhook.NewSecret(), time.Now()
	ref, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"", "{}", "a.b.c", "\x00\xff"} {
		h := signed(t, secret, "msg_1", now, body)
		if err := ref.Verify([]byte(body), h); err != nil {
			t.Errorf("the library refuses our signature of %q: %v", body, err)
		}
		theirs, err := ref.Sign("msg_1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if h.Set("webhook-signature", theirs); webhook.Verify([]string{secret}, h, []byte(body), now) != nil {
			t.Errorf("we refuse the library's signature of %q", body)
		}
	}
}

// The vector was computed with openssl.
func TestSignVector(t *testing.T) {
	got, err := webhook.Sign("whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", "msg_1", 1800000000, []byte(`{"ring":true}`))
	if want := "v1,89aanmcX6Q9q3u3zeW7kygSaD9mJMo3CxCbytAhIHU8="; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestVerifyRefusesWhatWasTouched(t *testing.T) {
	secret, now := webhook.NewSecret(), time.Now()
	const body = "the body"
	for name, c := range map[string]struct {
		touch func(h http.Header) (body string, now time.Time)
		want  error
	}{
		"nothing": {func(http.Header) (string, time.Time) { return body, now }, nil},
		"body":    {func(http.Header) (string, time.Time) { return body + " ", now }, webhook.ErrSignature},
		"id":      {func(h http.Header) (string, time.Time) { h.Set("webhook-id", "other"); return body, now }, webhook.ErrSignature},
		"time": {func(h http.Header) (string, time.Time) {
			h.Set("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10))
			return body, now
		}, webhook.ErrSignature},
		"no number": {func(h http.Header) (string, time.Time) { h.Set("webhook-timestamp", "soon"); return body, now }, webhook.ErrTimestamp},
		"no id":     {func(h http.Header) (string, time.Time) { h.Del("webhook-id"); return body, now }, webhook.ErrUnsigned},
		"unsigned":  {func(h http.Header) (string, time.Time) { h.Del("webhook-signature"); return body, now }, webhook.ErrUnsigned},
		"other kind": {func(h http.Header) (string, time.Time) {
			h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1,", "v2,", 1))
			return body, now
		}, webhook.ErrSignature},
		"replayed":     {func(http.Header) (string, time.Time) { return body, now.Add(6 * time.Minute) }, webhook.ErrTimestamp},
		"from ahead":   {func(http.Header) (string, time.Time) { return body, now.Add(-6 * time.Minute) }, webhook.ErrTimestamp},
		"just in time": {func(http.Header) (string, time.Time) { return body, now.Add(4 * time.Minute) }, nil},
	} {
		h := signed(t, secret, "msg_1", now, body)
		got, at := c.touch(h)
		if err := webhook.Verify([]string{webhook.NewSecret(), secret}, h, []byte(got), at); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	h := signed(t, secret, "msg_1", now, body)
	if err := webhook.Verify([]string{webhook.NewSecret()}, h, []byte(body), now); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("another secret: %v", err)
	}
	if err := webhook.Verify(nil, h, []byte(body), now); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("no secret at all: %v", err)
	}
	for _, key := range []string{"", "x", "whsec_x", "whpk_x", "whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 31)), "whsk_" + secret} {
		if err := webhook.Verify([]string{key, secret}, h, []byte(body), now); err == nil || errors.Is(err, webhook.ErrSignature) {
			t.Errorf("%.8q is a key: %v", key, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	if a, b := webhook.NewSecret(), webhook.NewSecret(); a == b || webhook.CheckSecret(a) != nil {
		t.Errorf("two new secrets: %s, %s", a, b)
	}
	b64 := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for secret, ok := range map[string]bool{b64(24): true, b64(64): true, b64(23): false, b64(65): false, "": false, "whsec_": false,
		"whsec_not base64 at all, but long enough": false, strings.TrimPrefix(b64(32), "whsec_"): false} {
		err := webhook.CheckSecret(secret)
		if (err == nil) != ok {
			t.Errorf("%q: %v", secret, err)
		}
		if err != nil && len(secret) > 8 && strings.Contains(err.Error(), secret[6:]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}
