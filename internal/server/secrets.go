package server

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// Secrets keeps the secrets and the signing keys of namespaces; its operations have their checks.
type Secrets interface {
	PutSecret(ctx context.Context, namespace, name, value string, hosts []string) (Secret, error)
	Secrets(ctx context.Context, namespace string) ([]Secret, error)
	DeleteSecret(ctx context.Context, namespace, name string) error
	// SigningKeys returns the keys that sign now, the newest first; with reveal, with their secrets.
	SigningKeys(ctx context.Context, namespace string, reveal bool) ([]SigningKey, error)
	RotateSigningKeys(ctx context.Context, namespace string, overlap time.Duration) ([]SigningKey, error)
	RotateSessionKey(ctx context.Context) error
}

// Secret describes a secret without its value.
type Secret struct {
	Name             string
	Version          uint64
	Created, Updated rouse.Instant
	Hosts            []string
	Key, Unreadable  string
}

// SigningKey is a signing key in text form.
type SigningKey struct {
	ID             string
	Created, Until rouse.Instant
	Public, Secret string
}

// requireSecrets returns the secrets of the server.
func (s *service) requireSecrets() (Secrets, error) {
	if s.opts.Secrets == nil {
		return nil, fmt.Errorf("this server keeps no secrets: %w", rousev1.ErrUnimplemented)
	}
	return s.opts.Secrets, nil
}

// secretsServer implements rouse.v1.Secrets.
type secretsServer struct {
	rousev1.UnimplementedSecretsServer
	*service
}

// checkOffered is asked before the body of a request is read.
func (f *secretsServer) checkOffered() error {
	_, err := f.requireSecrets()
	return err
}

func (f *secretsServer) PutSecret(ctx context.Context, r *rousev1.PutSecretRequest) (*rousev1.Secret, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	s, err := ops.PutSecret(ctx, key.Namespace, key.Name, r.Value, r.Hosts)
	if err != nil {
		return nil, err
	}
	return secretToProto(key.Namespace, &s), nil
}

func (f *secretsServer) ListSecrets(ctx context.Context,
	r *rousev1.ListSecretsRequest) (*rousev1.ListSecretsResponse, error) {
	namespace := keyFrom(r.Namespace, "", "").Namespace
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	list, err := ops.Secrets(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListSecretsResponse{Secrets: make([]*rousev1.Secret, len(list))}
	for i := range list {
		out.Secrets[i] = secretToProto(namespace, &list[i])
	}
	return out, nil
}

func (f *secretsServer) DeleteSecret(ctx context.Context,
	r *rousev1.DeleteSecretRequest) (*rousev1.DeleteSecretResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	return &rousev1.DeleteSecretResponse{}, ops.DeleteSecret(ctx, key.Namespace, key.Name)
}

func (f *secretsServer) ListSigningKeys(ctx context.Context,
	r *rousev1.ListSigningKeysRequest) (*rousev1.SigningKeys, error) {
	return f.signingKeys(ctx, r.Namespace, false)
}

func (f *secretsServer) RevealSigningKeys(ctx context.Context,
	r *rousev1.RevealSigningKeysRequest) (*rousev1.SigningKeys, error) {
	return f.signingKeys(ctx, r.Namespace, true)
}

func (f *secretsServer) signingKeys(ctx context.Context, namespace string, reveal bool) (*rousev1.SigningKeys, error) {
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	list, err := ops.SigningKeys(ctx, keyFrom(namespace, "", "").Namespace, reveal)
	if err != nil {
		return nil, err
	}
	return signingToProto(list), nil
}

func (f *secretsServer) RotateSigningKeys(ctx context.Context,
	r *rousev1.RotateSigningKeysRequest) (*rousev1.SigningKeys, error) {
	overlap, err := rousev1.DurationFromProto("overlap", r.Overlap)
	if err != nil {
		return nil, err
	}
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	namespace := keyFrom(r.Namespace, "", "").Namespace
	var list []SigningKey
	err = f.timers.DoOnce(ctx, namespace, []any{access.SigningTurn, overlap}, func(ctx context.Context) (err error) {
		list, err = ops.RotateSigningKeys(ctx, namespace, overlap)
		return err
	})
	if err != nil {
		return nil, err
	}
	return signingToProto(list), nil
}

func secretToProto(namespace string, s *Secret) *rousev1.Secret {
	return &rousev1.Secret{Namespace: namespace, Name: s.Name, Version: s.Version, CreatedMs: int64(s.Created),
		UpdatedMs: int64(s.Updated), Hosts: s.Hosts, Key: s.Key, Unreadable: s.Unreadable}
}

func signingToProto(list []SigningKey) *rousev1.SigningKeys {
	out := &rousev1.SigningKeys{}
	for _, k := range list {
		out.Keys = append(out.Keys, &rousev1.SigningKey{Id: k.ID, CreatedMs: int64(k.Created), UntilMs: int64(k.Until),
			PublicKey: k.Public, Secret: k.Secret})
	}
	return out
}

const secretName = `
parameters:
  - {name: name, in: path, required: true, schema: {type: string, pattern: '^[a-z0-9][a-z0-9._-]{0,63}$'}}`

// maxSecretBody bounds the body of a request with a secret: each of its bytes may be escaped.
const maxSecretBody = 8 * rouse.MaxSecret
