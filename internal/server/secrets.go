package server

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/secret"
)

// requireSecrets returns the secrets of the server.
func (s *service) requireSecrets() (*secret.Secrets, error) {
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
	i, err := ops.PutKind(ctx, key.Namespace, key.Name, r.Value,
		secret.Kind{OAuth: rousev1.OAuthClientFrom(r.Oauth), AWS: rousev1.AWSKeyFrom(r.Aws)}, r.Hosts...)
	if err != nil {
		return nil, err
	}
	return secretToProto(key.Namespace, &i), nil
}

func (f *secretsServer) ListSecrets(ctx context.Context,
	r *rousev1.ListSecretsRequest) (*rousev1.ListSecretsResponse, error) {
	namespace := keyFrom(r.Namespace, "", "").Namespace
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	list, err := ops.List(ctx, namespace)
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
	return &rousev1.DeleteSecretResponse{}, ops.Delete(ctx, key.Namespace, key.Name)
}

func (f *secretsServer) ListSigningKeys(ctx context.Context,
	r *rousev1.ListSigningKeysRequest) (*rousev1.SigningKeys, error) {
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	keys, err := ops.PublicKeys(keyFrom(r.Namespace, "", "").Namespace)
	if err != nil {
		return nil, err
	}
	return signingToProto(keys, false), nil
}

func (f *secretsServer) RevealSigningKeys(ctx context.Context,
	r *rousev1.RevealSigningKeysRequest) (*rousev1.SigningKeys, error) {
	ops, err := f.requireSecrets()
	if err != nil {
		return nil, err
	}
	set, err := ops.RevealSigning(ctx, keyFrom(r.Namespace, "", "").Namespace)
	if err != nil {
		return nil, err
	}
	return signingToProto(set.Keys, true), nil
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
	var set *secret.SigningSet
	err = f.timers.DoOnce(ctx, namespace, []any{access.SigningTurn, overlap}, func(ctx context.Context) (err error) {
		set, err = ops.RotateSigning(ctx, namespace, overlap)
		return err
	})
	if err != nil {
		return nil, err
	}
	return signingToProto(set.Keys, true), nil
}

func secretToProto(namespace string, i *secret.Info) *rousev1.Secret {
	return &rousev1.Secret{Namespace: namespace, Name: i.Name, Version: i.Version, CreatedMs: int64(i.Created),
		UpdatedMs: int64(i.Updated), Hosts: i.Hosts, Key: i.Key, Unreadable: i.Unreadable,
		Oauth: rousev1.OAuthClientTo(i.Kind.OAuth), Aws: rousev1.AWSKeyTo(i.Kind.AWS)}
}

func signingToProto(keys []secret.SigningKey, reveal bool) *rousev1.SigningKeys {
	out := &rousev1.SigningKeys{Keys: make([]*rousev1.SigningKey, len(keys))}
	for i := range keys {
		k := &keys[i]
		out.Keys[i] = &rousev1.SigningKey{Id: k.ID, CreatedMs: int64(k.Created), UntilMs: int64(k.Until),
			PublicKey: k.PublicText()}
		if reveal {
			out.Keys[i].Secret = k.SecretText()
		}
	}
	return out
}

const secretName = `
parameters:
  - {name: name, in: path, required: true, schema: {type: string, pattern: '^[a-z0-9][a-z0-9._-]{0,63}$'}}`

// maxSecretBody bounds the body of a request with a secret: each of its bytes may be escaped.
const maxSecretBody = 8 * rouse.MaxSecret
