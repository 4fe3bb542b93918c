package rouse

import (
	"fmt"
	"strings"
)

// MaxSecret is the maximum length of a secret's value, in bytes.
const MaxSecret = 4096

const secretOpen = referenceOpen + "secret:"

// CheckSecretName refuses names that a secret cannot have.
func CheckSecretName(name string) error {
	if CheckNamespace(name) != nil { // the same alphabet
		return Refuse("name", Shorten(name, 64), "is no name of a secret",
			"use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	return nil
}

// HasSecrets reports whether a text may contain references to secrets.
func HasSecrets(text string) bool { return strings.Contains(text, secretOpen) }

// ExpandSecrets replaces each reference {{secret:NAME}} in a text by the value that value returns for the
// name. A reference that is not complete is an error; errors do not contain the text, which may hold other
// secrets.
func ExpandSecrets(text string, value func(name string) (string, error)) (string, error) {
	expanded, err := expandReferences(text, secretOpen, value)
	if err == errOpenReference {
		err = fmt.Errorf("a reference to a secret has no end: write it as %sNAME%s", secretOpen, referenceClose)
	}
	return expanded, err
}

// SecretNames returns the names of the secrets that the headers refer to, each with the name of its header.
func (w *Webhook) SecretNames() (refs []SecretRef) {
	for header, value := range w.Headers {
		if !HasSecrets(value) {
			continue
		}
		_, _ = ExpandSecrets(value, func(name string) (string, error) { // Check has refused references that are not complete
			refs = append(refs, SecretRef{Header: header, Name: name})
			return "", nil
		})
	}
	return refs
}

// SecretRef is a reference of a header to a secret.
type SecretRef struct{ Header, Name string }

// secretFault returns the fault in the references of a header's value, if there is one.
func secretFault(value string) string {
	_, err := ExpandSecrets(value, func(name string) (string, error) {
		if CheckSecretName(name) != nil {
			return "", fmt.Errorf("a reference names the secret %q, which no secret can be called", Shorten(name, 64))
		}
		return "", nil
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
