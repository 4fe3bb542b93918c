package rouse

import (
	"fmt"
	"slices"
	"strings"
)

// Credential is a secret that is not sent itself: callbacks get something that is made with it. It has OAuth
// or AWS.
type Credential struct {
	Secret  string // the client secret, or the secret key
	Version uint64 // of the secret: another one has another value
	OAuth   *OAuthClient
	AWS     *AWSKey
}

// OAuthClient makes a secret that of a client of OAuth 2.0: a reference to it is an access token, which the
// client credentials grant gives.
type OAuthClient struct {
	TokenURL string   `json:"token_url"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes,omitempty"`
	Audience string   `json:"audience,omitempty"` // that some servers ask for
}

// AWSKey makes a secret the secret key of an access key of AWS. The header Authorization that is a reference
// to it has a signature of the request, of version 4.
type AWSKey struct {
	AccessKey string `json:"access_key"` // its id
	Region    string `json:"region"`
	Service   string `json:"service"` // such as lambda, execute-api or events
}

// Bounds of credentials.
const (
	MaxScopes  = 32  // of an OAuth client
	maxIDBytes = 256 // of ids, scopes, audiences, regions and services
)

// Check refuses what no server takes. It does not judge where the token URL leads: sinks do.
func (c *OAuthClient) Check() error {
	var ps []Problem
	add := func(field, value, wrong, cure string) {
		ps = append(ps, Problem{Field: "oauth." + field, Value: Shorten(value, 128), Wrong: wrong, Cure: cure})
	}
	if c.TokenURL == "" {
		add("token_url", "", "is missing", "give the token endpoint, such as https://login.example.com/oauth2/token")
	}
	if !isID(c.ClientID) {
		add("client_id", c.ClientID, "is no id of a client", idCure)
	}
	if c.Audience != "" && !isID(c.Audience) {
		add("audience", c.Audience, "is no audience", idCure)
	}
	if len(c.Scopes) > MaxScopes {
		add("scopes", fmt.Sprint(len(c.Scopes)), "are too many", fmt.Sprintf("give at most %d", MaxScopes))
	}
	if i := slices.IndexFunc(c.Scopes, func(s string) bool { return !isID(s) || strings.ContainsAny(s, ` "\`) }); i >= 0 {
		add(fmt.Sprintf("scopes[%d]", i), c.Scopes[i], "is no scope", idCure+`, and neither spaces nor '"' nor '\'`)
	}
	return invalidOf(ps)
}

var idCure = fmt.Sprintf("use 1 to %d bytes of printable ASCII, without spaces at the ends", maxIDBytes)

func isID(s string) bool { return s != "" && len(s) <= maxIDBytes && IsHeaderValue(s) }

// Check refuses what a signature cannot have.
func (k *AWSKey) Check() error {
	var ps []Problem
	for _, f := range []struct{ name, value, such string }{{"access_key", k.AccessKey, "AKIAIOSFODNN7EXAMPLE"},
		{"region", k.Region, "eu-west-1"}, {"service", k.Service, "lambda"}} {
		if f.value == "" || len(f.value) > maxIDBytes || strings.ContainsFunc(f.value, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
		}) {
			ps = append(ps, Problem{Field: "aws." + f.name, Value: Shorten(f.value, 128), Wrong: "cannot be part of a signature",
				Cure: fmt.Sprintf("use 1 to %d letters, digits, '-', '_' and '.', such as %s", maxIDBytes, f.such)})
		}
	}
	return invalidOf(ps)
}

func invalidOf(ps []Problem) error {
	if len(ps) == 0 {
		return nil
	}
	return &Invalid{Problems: ps}
}

// SplitAWSSecret returns the parts of the value of a secret with an AWSKey: the secret key and, after a
// colon, the session token of temporary credentials.
func SplitAWSSecret(value string) (key, session string) {
	key, session, _ = strings.Cut(value, ":")
	return key, session
}

// HeaderFault returns why a header cannot refer to the credential by its value, or "".
func (c *Credential) HeaderFault(header, value, name string) string {
	if c == nil || c.AWS == nil || strings.EqualFold(header, "Authorization") && value == secretOpen+name+referenceClose {
		return ""
	}
	return "refers to an access key of AWS, which signs requests: use the header Authorization, with " + secretOpen +
		name + referenceClose + " as its whole value"
}
