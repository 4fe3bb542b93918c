package api

import (
	"context"
	"time"

	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/internal/server"
)

// secrets are the secrets of a store as the API shows them.
type secrets struct{ of *secret.Secrets }

func shownSecret(i secret.Info) server.Secret {
	return server.Secret{Name: i.Name, Version: i.Version, Created: i.Created, Updated: i.Updated, Hosts: i.Hosts,
		Key: i.Key, Unreadable: i.Unreadable}
}

func (s secrets) PutSecret(ctx context.Context, namespace, name, value string, hosts []string) (server.Secret, error) {
	i, err := s.of.Put(ctx, namespace, name, value, hosts...)
	return shownSecret(i), err
}

func (s secrets) Secrets(ctx context.Context, namespace string) ([]server.Secret, error) {
	infos, err := s.of.List(ctx, namespace)
	list := make([]server.Secret, len(infos))
	for i := range infos {
		list[i] = shownSecret(infos[i])
	}
	return list, err
}

func (s secrets) DeleteSecret(ctx context.Context, namespace, name string) error {
	return s.of.Delete(ctx, namespace, name)
}

func (s secrets) SigningKeys(ctx context.Context, namespace string, reveal bool) ([]server.SigningKey, error) {
	if !reveal {
		keys, err := s.of.PublicKeys(namespace)
		return shownSigningKeys(keys, false), err
	}
	set, err := s.of.RevealSigning(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return shownSigningKeys(set.Keys, true), nil
}

func (s secrets) RotateSigningKeys(ctx context.Context, namespace string,
	overlap time.Duration) ([]server.SigningKey, error) {
	set, err := s.of.RotateSigning(ctx, namespace, overlap)
	if err != nil {
		return nil, err
	}
	return shownSigningKeys(set.Keys, true), nil
}

func shownSigningKeys(keys []secret.SigningKey, reveal bool) []server.SigningKey {
	list := make([]server.SigningKey, len(keys))
	for i := range keys {
		k := &keys[i]
		list[i] = server.SigningKey{ID: k.ID, Created: k.Created, Until: k.Until, Public: k.PublicText()}
		if reveal {
			list[i].Secret = k.SecretText()
		}
	}
	return list
}

func (s secrets) RotateSessionKey(ctx context.Context) error { return s.of.RotateSessionKey(ctx) }
