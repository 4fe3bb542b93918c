package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

// TestSignaturesOfAWS compares signatures with those that AWS has published: in its test suite of version 4,
// and in the example of its IAM documentation. Paths and queries are as they are sent.
func TestSignaturesOfAWS(t *testing.T) {
	const secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	const session = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
	const all = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for _, c := range []struct {
		name, method, target, value, service string
		headers                              [][2]string
		body, names, want                    string
	}{
		{name: "get-vanilla", target: "/", want: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{name: "post-vanilla", method: "POST", target: "/", want: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{name: "get-vanilla-query-order-encoded", target: "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
			want: "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
		{name: "get-vanilla-empty-query-key", target: "/?Param1=value1", want: "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
		{name: "get-vanilla-query-unreserved", target: "/?" + all + "=" + all, want: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
		{name: "get-relative-relative-normalized", target: "/example1/example2/../..", want: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{name: "get-slashes-normalized", target: "//example//", want: "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
		{name: "get-utf8", target: "/ሴ", want: "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		{name: "get-space-normalized", target: "/example space/", want: "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
		{name: "get-vanilla-with-session-token", target: "/", value: secret + ":" + session, names: "host;x-amz-date;x-amz-security-token",
			want: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
		{name: "post-x-www-form-urlencoded", method: "POST", target: "/", headers: [][2]string{{"Content-Type", "application/x-www-form-urlencoded"},
			{"Content-Length", "13"}}, body: "Param1=value1", names: "content-type;host;x-amz-date",
			want: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
		{name: "ListUsers of IAM", target: "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", service: "iam",
			headers: [][2]string{{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}}, names: "content-type;host;x-amz-date",
			want: "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
	} {
		if !strings.HasPrefix(c.target, "https:") {
			c.target = "https://example.amazonaws.com" + c.target
		}
		set := func(s *string, value string) {
			if *s == "" {
				*s = value
			}
		}
		set(&c.method, "GET")
		set(&c.value, secret)
		set(&c.service, "service")
		set(&c.names, "host;x-amz-date")
		got := webhook.SignAWS(c.method, c.target, c.headers, c.body, &rouse.Credential{Secret: c.value,
			AWS: &rouse.AWSKey{AccessKey: "AKIDEXAMPLE", Region: "us-east-1", Service: c.service}}, at)
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/" + c.service + "/aws4_request, SignedHeaders=" + c.names + ", Signature=" + c.want
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %.260s\nwant %s", c.name, got, want)
		}
	}
}

// TestRequestsAreSignedForAWS sends fires whose header Authorization refers to an access key. An answer that
// echoes the session token does not show it, and the key is no part of another header.
func TestRequestsAreSignedForAWS(t *testing.T) {
	w := newWire(t, webhook.Options{DropHeaders: nil, Credential: func(_, name, _ string) (*rouse.Credential, error) {
		return &rouse.Credential{Secret: "a key:a-session", AWS: &rouse.AWSKey{AccessKey: "AKID", Region: "eu-west-1", Service: "lambda"}}, nil
	}}, receiver.Options{Answer: receiver.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("you sent " + r.Header.Get("X-Amz-Security-Token")))
	})})
	f := w.fire()
	f.Spec.Webhook.Headers = map[string]string{"authorization": "{{secret:report}}", "X-Amz-Target": "AWSEvents.PutEvents"}
	o := w.send(f)[0]
	a := w.next()
	at, err := time.Parse("20060102T150405Z", a.Header.Get("X-Amz-Date"))
	if err != nil {
		t.Fatal(err)
	}
	want := webhook.SignAWS("POST", f.Spec.Target, [][2]string{{"Content-Type", "application/json"}, {"X-Amz-Target", "AWSEvents.PutEvents"}},
		string(a.Body), &rouse.Credential{Secret: "a key:a-session", AWS: &rouse.AWSKey{AccessKey: "AKID", Region: "eu-west-1", Service: "lambda"}}, at)
	if got := a.Header.Get("Authorization"); got != want || !strings.Contains(got, "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target,") {
		t.Errorf("sent %q, want %q", got, want)
	}
	if o.Code != 403 || !strings.Contains(o.Detail, "you sent [secret]") {
		t.Errorf("%+v", o)
	}
	for k, v := range map[string]string{"X-Key": "{{secret:report}}", "Authorization": "Bearer {{secret:report}}"} {
		f.Spec.Webhook.Headers = map[string]string{k: v}
		if o := w.send(f)[0]; o.Verdict != rouse.Deferred || o.Cause != rouse.CauseNoSecret || !strings.Contains(o.Detail, "use the header Authorization") {
			t.Errorf("%s %s: %+v", k, v, o)
		}
	}
}
