package token

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse/internal/access/rules"
	"github.com/rousehq/rouse/internal/certs"
)

// Bounds of the fetches of keys. Between refreshes, a token with an unknown key causes a fetch at most every
// fetchPause: an issuer may have a new key, and anyone can send a token with an unknown one.
const (
	refreshEvery = 10 * time.Minute
	retryEvery   = 10 * time.Second
	fetchPause   = 10 * time.Second
	fetchWithin  = 5 * time.Second
	maxWaiting   = 64 // callers that wait for a fetch at a time
	maxDocument  = 1 << 20
	maxKeys      = 100
	minRSA       = 2048
)

// keys are the public keys of an issuer. If they cannot be fetched, the previous ones stay in use.
type keys struct {
	issuer  *rules.Issuer
	changed func()
	log     *slog.Logger
	fetches chan struct{} // held during a fetch
	waiting chan struct{} // has an element for each caller that waits for one

	mu     sync.Mutex
	set    []jose.JSONWebKey
	found  *discovery // the issuer's document; nil if nothing needs it
	number uint64     // of the set
	tried  time.Time  // when the last fetch began
	err    error      // of it
}

func newKeys(i *rules.Issuer, changed func(), log *slog.Logger) (*keys, error) {
	k := &keys{issuer: i, changed: changed, log: log, fetches: make(chan struct{}, 1),
		waiting: make(chan struct{}, maxWaiting)}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	if i.CA != "" {
		if err := k.caFiles().Check(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *keys) caFiles() certs.Files { return certs.Files{CA: k.issuer.CA, CAName: "principals: ca"} }

func (k *keys) keyGeneration() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.number
}

// runRefresh refreshes the keys until ctx ends.
func (k *keys) runRefresh(ctx context.Context) {
	for {
		wait := refreshEvery
		if k.refreshKeys(ctx, 0) != nil {
			wait = retryEvery
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// refreshKeys fetches the keys, unless that was tried less than pause ago. One fetch runs at a time; others
// wait for it.
func (k *keys) refreshKeys(ctx context.Context, pause time.Duration) error {
	select {
	case k.fetches <- struct{}{}:
		defer func() { <-k.fetches }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	if pause > 0 && time.Since(k.tried) < pause {
		defer k.mu.Unlock()
		return k.err
	}
	before := k.err
	k.tried = time.Now()
	k.mu.Unlock()
	found, set, err := k.fetchKeys(ctx)
	if err != nil && ctx.Err() == nil && (before == nil || before.Error() != err.Error()) {
		k.log.Warn("the keys of an issuer of tokens cannot be fetched; previous ones stay in use", "issuer", k.issuer.Issuer,
			"error", err)
	}
	k.mu.Lock()
	if err == nil {
		k.found = found
	}
	if k.err = err; err != nil || reflect.DeepEqual(set, k.set) {
		k.mu.Unlock()
		return err
	}
	k.set = set
	k.number++
	k.mu.Unlock()
	k.changed()
	k.log.Info("keys of an issuer of tokens", "issuer", k.issuer.Issuer, "keys", len(set))
	return nil
}

// keyForToken returns the key of a token, and the generation of the keys. A token without a key id is
// verified only if the issuer has one key for the algorithm.
func (k *keys) keyForToken(ctx context.Context, id, algorithm string) (any, uint64, error) {
	key, number, err := k.findKey(id, algorithm)
	if err == nil {
		return key, number, nil
	}
	select {
	case k.waiting <- struct{}{}:
		_ = k.refreshKeys(ctx, fetchPause) // findKey returns the better error, with that of the fetch
		<-k.waiting
	default: // anyone can send a token with an unknown key
	}
	return k.findKey(id, algorithm)
}

func (k *keys) findKey(id, algorithm string) (any, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []any
	for i := range k.set {
		one := &k.set[i]
		if (id == "" || one.KeyID == id) && fitsAlgorithm(one.Key, algorithm) &&
			(one.Algorithm == "" || one.Algorithm == algorithm) {
			found = append(found, one.Key)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], k.number, nil
	case len(found) > 1:
		return nil, 0,
			errors.New(
				"several keys of the issuer may be its key; the token has to name one by kid, and the issuer has to give each its own")
	case len(k.set) == 0 && k.err != nil:
		return nil, 0, fmt.Errorf("the keys of the issuer cannot be fetched: %w", k.err)
	case len(k.set) == 0:
		return nil, 0, errors.New("the keys of the issuer have not been fetched yet; try again")
	}
	return nil, 0, errors.New("it is signed with a key that the issuer does not have")
}

// fitsAlgorithm reports whether a key is of an algorithm.
func fitsAlgorithm(key any, algorithm string) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return algorithm == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[k.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}

// discovery is an issuer's discovery document.
type discovery struct {
	Issuer    string   `json:"issuer"`
	Keys      string   `json:"jwks_uri"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	End       string   `json:"end_session_endpoint"`
	Methods   []string `json:"token_endpoint_auth_methods_supported"`
	Named     bool     `json:"authorization_response_iss_parameter_supported"` // its answers name it
}

// readDiscovery reads the discovery document of the issuer.
func (k *keys) readDiscovery(ctx context.Context) (*discovery, error) {
	found := &discovery{}
	if err := k.readJSON(ctx, strings.TrimSuffix(k.issuer.Issuer, "/")+"/.well-known/openid-configuration",
		found); err != nil {
		return nil, err
	}
	if found.Issuer != k.issuer.Issuer {
		return nil, fmt.Errorf("its discovery document is of the issuer %q", found.Issuer)
	}
	for what, at := range map[string]string{"keys": found.Keys, "authorization endpoint": found.Authorize,
		"token endpoint": found.Token, "logout": found.End} {
		if at != "" && !strings.HasPrefix(at, "https://") && !strings.HasPrefix(k.issuer.Issuer, "http://") {
			return nil, fmt.Errorf("its discovery document names the %s %q, which is no https:// URL", what, at)
		}
	}
	if k.issuer.Login != nil && (found.Authorize == "" || found.Token == "") {
		return nil,
			errors.New(
				"its discovery document has no authorization_endpoint or no token_endpoint: rouse cannot send people there to sign in")
	}
	return found, nil
}

// fetchKeys reads the keys of the issuer, and its discovery document.
func (k *keys) fetchKeys(ctx context.Context) (found *discovery, set []jose.JSONWebKey, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	from := k.issuer.Keys
	if from == "" || k.issuer.Login != nil {
		if found, err = k.readDiscovery(ctx); err != nil {
			return nil, nil, err
		}
		from = cmp.Or(from, found.Keys)
	}
	set, err = k.fetchSet(ctx, from)
	return found, set, err
}

func (k *keys) fetchSet(ctx context.Context, from string) ([]jose.JSONWebKey, error) {
	var document struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := k.readJSON(ctx, from, &document); err != nil {
		return nil, err
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, more than %d", len(document.Keys), maxKeys)
	}
	var set []jose.JSONWebKey
	for _, text := range document.Keys {
		var one jose.JSONWebKey
		if one.UnmarshalJSON(text) != nil || !isUsableKey(&one) {
			continue // of a kind that rouse does not use; others may do
		}
		set = append(set, one)
	}
	if len(set) == 0 {
		return nil, errors.New("it has no public key of signatures")
	}
	return set, nil
}

// isUsableKey reports whether a key is a public one of signatures, and strong enough.
func isUsableKey(k *jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" || !k.Valid() {
		return false
	}
	switch key := k.Key.(type) { // private ones have other types
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// readJSON reads a JSON document.
func (k *keys) readJSON(ctx context.Context, url string, to any) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	q.Header.Set("Accept", "application/jwk-set+json, application/json")
	if k.issuer.Token != "" {
		token, err := os.ReadFile(k.issuer.Token)
		if err != nil {
			return err
		}
		q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	status, body, err := k.sendRequest(q)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answers %d %s", url, status, http.StatusText(status))
	}
	return json.Unmarshal(body, to)
}

// sendRequest sends a request to the issuer, and returns the answer. It follows no redirect.
func (k *keys) sendRequest(q *http.Request) (status int, body []byte, err error) {
	secure, err := k.caFiles().Client()
	if err != nil {
		return 0, nil, err
	}
	transport := &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	answer, err := client.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(answer.Body, maxDocument+1)); err != nil {
		return 0, nil, err
	}
	if len(body) > maxDocument {
		return 0, nil, fmt.Errorf("%s has more than %d bytes", q.URL, maxDocument)
	}
	return answer.StatusCode, body, nil
}
