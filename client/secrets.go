package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Secrets has the secrets and the signing keys of namespaces.
type Secrets struct{ c *Client }

// Secrets returns the secrets of the server.
func (c *Client) Secrets() *Secrets { return &Secrets{c} }

// Secret describes a secret of a namespace. Its value is never returned.
type Secret struct {
	Name             string
	Version          uint64 // 1 is the first value
	Created, Updated rouse.Instant
	Hosts            []string // that it may be sent to; none is all
	// Of a secret that is not sent itself, one of:
	OAuth      *rouse.OAuthClient
	AWS        *rouse.AWSKey
	Key        string // id of the key that seals it
	Unreadable string // why the node cannot use it; empty if it can
}

func secretFrom(p *rousev1.Secret) Secret {
	return Secret{Name: p.GetName(), Version: p.GetVersion(), Created: rouse.Instant(p.GetCreatedMs()),
		Updated: rouse.Instant(p.GetUpdatedMs()), Key: p.GetKey(),
		Hosts: p.GetHosts(), Unreadable: p.GetUnreadable(), OAuth: rousev1.OAuthClientFrom(p.GetOauth()),
		AWS: rousev1.AWSKeyFrom(p.GetAws())}
}

// Put creates a secret, or gives it a new value. Headers of timers of the namespace refer to it as
// {{secret:NAME}}; all nodes use the new value within five seconds. An empty namespace is "default". It is
// retried; a value that was written twice counts as two versions. It may be sent to the given hosts only:
// names, "*.example.com" for all below it, addresses, or "*" for all. Without any, those of the value before
// stay; a new secret may be sent to all. A secret that PutOAuth or PutAWS wrote stays what it is.
func (s *Secrets) Put(ctx context.Context, namespace, name, value string, hosts ...string) (Secret, error) {
	return s.putSecret(ctx, &rousev1.PutSecretRequest{Namespace: namespace, Name: name, Value: value, Hosts: hosts})
}

// PutOAuth is Put for the client secret of a client of OAuth 2.0: headers that refer to it get an access
// token, which the hosts are for.
func (s *Secrets) PutOAuth(ctx context.Context, namespace, name, value string, client rouse.OAuthClient,
	hosts ...string) (Secret, error) {
	return s.putSecret(ctx, &rousev1.PutSecretRequest{Namespace: namespace, Name: name, Value: value, Hosts: hosts,
		Oauth: rousev1.OAuthClientTo(&client)})
}

// PutAWS is Put for the secret key of an access key of AWS, with a session token after a colon if there is
// one: a header Authorization that is a reference to it gets the signature of the request.
func (s *Secrets) PutAWS(ctx context.Context, namespace, name, value string, key rouse.AWSKey,
	hosts ...string) (Secret, error) {
	return s.putSecret(ctx, &rousev1.PutSecretRequest{Namespace: namespace, Name: name, Value: value, Hosts: hosts,
		Aws: rousev1.AWSKeyTo(&key)})
}

func (s *Secrets) putSecret(ctx context.Context, request *rousev1.PutSecretRequest) (Secret, error) {
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.Secret,
		error) {
		return s.c.secrets.PutSecret(ctx, request)
	})
	return secretFrom(p), err
}

// List describes the secrets of a namespace, ordered by name. It is retried.
func (s *Secrets) List(ctx context.Context, namespace string) ([]Secret, error) {
	request := &rousev1.ListSecretsRequest{Namespace: namespace}
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.ListSecretsResponse,
		error) {
		return s.c.secrets.ListSecrets(ctx, request)
	})
	list := make([]Secret, len(p.GetSecrets()))
	for i, one := range p.GetSecrets() {
		list[i] = secretFrom(one)
	}
	return list, err
}

// Delete deletes a secret. Fires of timers that refer to it wait. It is retried: a retry that finds no
// secret assumes that an earlier try succeeded.
func (s *Secrets) Delete(ctx context.Context, namespace, name string) error {
	request := &rousev1.DeleteSecretRequest{Namespace: namespace, Name: name}
	_, err := callIdempotent(ctx, s.c.opts.Patience, func(unsure bool) (*rousev1.DeleteSecretResponse, error) {
		response, err := s.c.secrets.DeleteSecret(ctx, request)
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.DeleteSecretResponse{}, nil
		}
		return response, err
	})
	return err
}

// SigningKey is a key that signs the callbacks of a namespace. Package sink/webhook verifies signatures with
// both of its forms.
type SigningKey struct {
	ID             string
	Created, Until rouse.Instant // Until is when it ends to sign; 0: it has no end
	Public         string        // "whpk_…", for signatures v1a
	Secret         string        // "whsec_…", for signatures v1; empty unless it was asked for
}

func signingFrom(p *rousev1.SigningKeys) []SigningKey {
	list := make([]SigningKey, len(p.GetKeys()))
	for i, k := range p.GetKeys() {
		list[i] = SigningKey{ID: k.Id, Created: rouse.Instant(k.CreatedMs), Until: rouse.Instant(k.UntilMs),
			Public: k.PublicKey, Secret: k.Secret}
	}
	return list
}

// SigningKeys returns the public keys that verify the callbacks of a namespace, the newest first. It is
// retried.
func (s *Secrets) SigningKeys(ctx context.Context, namespace string) ([]SigningKey, error) {
	request := &rousev1.ListSigningKeysRequest{Namespace: namespace}
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.SigningKeys,
		error) {
		return s.c.secrets.ListSigningKeys(ctx, request)
	})
	return signingFrom(p), err
}

// RevealSigningKeys returns the same keys with their secrets. It is retried.
func (s *Secrets) RevealSigningKeys(ctx context.Context, namespace string) ([]SigningKey, error) {
	request := &rousev1.RevealSigningKeysRequest{Namespace: namespace}
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.SigningKeys,
		error) {
		return s.c.secrets.RevealSigningKeys(ctx, request)
	})
	return signingFrom(p), err
}

// RotateSigningKeys gives a namespace a new signing key, and returns it, first, with the old ones, which
// sign, too, for overlap. It is retried, with an Idempotency-Key.
func (s *Secrets) RotateSigningKeys(ctx context.Context, namespace string,
	overlap time.Duration) ([]SigningKey, error) {
	p, err := onlyOnce(ctx, s.c, func(ctx context.Context) (*rousev1.SigningKeys, error) {
		return s.c.secrets.RotateSigningKeys(ctx, &rousev1.RotateSigningKeysRequest{Namespace: namespace,
			Overlap: durationpb.New(overlap)})
	})
	return signingFrom(p), err
}
