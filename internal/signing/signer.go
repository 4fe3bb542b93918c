package signing

import (
	"slices"

	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/sink/webhook"
)

// Signer signs the callbacks of all namespaces.
type Signer struct {
	Keys    *secret.Secrets
	Common  *File    // that signs the callbacks of all namespaces; nil: there is none
	Schemes []string // of signatures: v1, v1a
}

// prepared is the signer of a namespace, while its keys and the secrets of the file are these.
type prepared struct {
	signing *webhook.Signing
	common  *[]string
}

// Signing returns the signer of the callbacks of a namespace: its keys, then the secrets of the file.
func (s *Signer) Signing(namespace string) (*webhook.Signing, error) {
	set, err := s.Keys.Signing(namespace)
	if err != nil {
		return nil, err
	}
	var common *[]string
	if s.Common != nil {
		common = s.Common.list.Load()
	}
	p, ok := set.Ready.Load().(*prepared)
	if !ok || p.common != common {
		p = &prepared{s.newSigning(set, common), common}
		set.Ready.Store(p)
	}
	return p.signing, nil
}

// newSigning makes the signer with the keys of a namespace and the common secrets.
func (s *Signer) newSigning(set *secret.SigningSet, common *[]string) *webhook.Signing {
	var keys []webhook.Key
	for i := range set.Keys {
		var k webhook.Key
		if slices.Contains(s.Schemes, "v1") {
			k.HMAC = set.Keys[i].HMAC
		}
		if slices.Contains(s.Schemes, "v1a") {
			k.Private = set.Keys[i].Private
		}
		keys = append(keys, k)
	}
	if common != nil {
		for _, text := range *common {
			if key, err := webhook.SecretKey(text); err == nil { // readFile has checked it
				keys = append(keys, webhook.Key{HMAC: key})
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return webhook.NewSigning(keys...)
}
