package secret

import (
	"errors"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/store/mem"
)

// TestSecretsThatAreNotSent gives secrets a use: they are returned as credentials only, to their hosts, keep
// the use with another value, and are sealed for it.
func TestSecretsThatAreNotSent(t *testing.T) {
	store, key := mem.New(), NewKey()
	a, _ := openIdle(t, store, key)
	oauth := Kind{OAuth: &rouse.OAuthClient{TokenURL: "https://login.example/token", ClientID: "rouse"}}
	aws := Kind{AWS: &rouse.AWSKey{AccessKey: "AKID", Region: "eu-west-1", Service: "lambda"}}
	put := func(value string, kind Kind, hosts ...string) {
		t.Helper()
		if _, err := a.PutKind(t.Context(), "acme", "token", value, kind, hosts...); err != nil {
			t.Fatal(err)
		}
	}
	put("v1", oauth, "one.example")
	put("v2", Kind{})
	c, err := a.Credential("acme", "token", "one.example")
	if err != nil || c.Secret != "v2" || c.Version != 2 || c.OAuth.ClientID != "rouse" || c.AWS != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if v, err := a.Value("acme", "token", "one.example"); v != "" || err == nil || !strings.Contains(err.Error(), "is not sent itself") {
		t.Errorf("it is sent itself: %q, %v", v, err)
	}
	if _, err := a.Credential("acme", "token", "two.example"); err == nil || !strings.Contains(err.Error(), "not to two.example") {
		t.Errorf("another host: %v", err)
	}
	if err := a.Check(t.Context(), "acme", specTo("https://one.example")); err != nil {
		t.Error(err)
	}

	list, err := a.values.Get(t.Context(), "acme/token")
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []Kind{{}, {OAuth: &rouse.OAuthClient{TokenURL: "https://evil.example/", ClientID: "rouse"}}} {
		var st stored
		if err := list[0].Read(&st); err != nil {
			t.Fatal(err)
		}
		st.Kind = forged
		if err := a.values.Write(t.Context(), access.Change{Name: "acme/token", Value: &st, If: rouse.AnyRevision}); err != nil {
			t.Fatal(err)
		}
		v, plain := a.Value("acme", "token", "one.example")
		if c, err := a.Credential("acme", "token", "one.example"); err == nil || plain == nil {
			t.Errorf("with the use %+v it opens: %q, %+v", forged, v, c)
		}
	}

	put("v3", aws, "*")
	spec := specTo("https://one.example")
	var no *rouse.Invalid
	if err := a.Check(t.Context(), "acme", spec); !errors.As(err, &no) || no.Problems[0].Field != "webhook.headers.Authorization" ||
		!strings.Contains(no.Problems[0].Cure, "{{secret:token}} as its whole value") {
		t.Errorf("%v", err)
	}
	spec.Webhook.Headers["Authorization"] = "{{secret:token}}"
	if err := a.Check(t.Context(), "acme", spec); err != nil {
		t.Error(err)
	}
	for want, kind := range map[string]Kind{
		"aws": {OAuth: oauth.OAuth, AWS: aws.AWS},
		"aws.access_key, aws.region, aws.service": {AWS: &rouse.AWSKey{Region: "a b", Service: strings.Repeat("s", 300)}},
		"oauth.token_url, oauth.client_id":        {OAuth: &rouse.OAuthClient{ClientID: " "}},
		"oauth.audience, oauth.scopes[1]":         {OAuth: &rouse.OAuthClient{TokenURL: "https://x", ClientID: "c", Audience: "é", Scopes: []string{"a", "b c"}}},
		"oauth.scopes":                            {OAuth: &rouse.OAuthClient{TokenURL: "https://x", ClientID: "c", Scopes: make([]string, 33)}},
	} {
		_, err := a.PutKind(t.Context(), "acme", "other", "v", kind)
		var fields []string
		if errors.As(err, &no) {
			for _, p := range no.Problems {
				fields = append(fields, p.Field)
			}
		}
		if got := strings.Join(fields, ", "); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %v", kind, err)
		}
	}
	b, _ := openIdle(t, store, key)
	if c, err := b.Credential("acme", "token", "any.example"); err != nil || c.Secret != "v3" || *c.AWS != *aws.AWS {
		t.Errorf("another node: %+v, %v", c, err)
	}
}
