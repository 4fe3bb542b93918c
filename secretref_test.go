package rouse

import (
	"errors"
	"strings"
	"testing"
)

// FuzzSecretReferences: of a header's value that is accepted every reference is replaced, by names that
// secrets can have; the values of secrets are not looked into, and no error has the text.
func FuzzSecretReferences(f *testing.F) {
	for _, text := range []string{"Bearer {{secret:stripe}}", "{{secret:a}}{{secret:b}}", "{{secret:a", "{{secret:}}", "{{secret:A B}}", "{{secret:{{secret:a}}}}", "}}{{secret:a}}{{", "none"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if secretFault(text) != "" {
			return
		}
		n := 0
		got, err := ExpandSecrets(text, func(name string) (string, error) {
			n++
			if CheckSecretName(name) != nil {
				return "", errors.New("no name")
			}
			return "{{secret:value}}", nil
		})
		if err != nil || n != strings.Count(text, secretOpen) || strings.Count(got, "{{secret:value}}") < n || n == 0 && got != text {
			t.Errorf("%q became %q with %d secrets, %v", text, got, n, err)
		}
		if refs := (&Webhook{Headers: map[string]string{"X": text}}).SecretNames(); len(refs) != n {
			t.Errorf("%q refers to %v", text, refs)
		}
	})
}
