package secret

import (
	"strings"
	"testing"
)

// FuzzRing: no text of sealing keys makes reading it panic; what is accepted seals and opens, and errors have
// none of the keys.
func FuzzRing(f *testing.F) {
	key := NewKey()
	for _, text := range []string{key, key + "\n" + NewKey() + "\n", "# comment\n\n" + key, key + "\r\n", key[:len(key)-1], strings.ToUpper(key), "", "rousekey_", "rousekey_AAAA"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := ParseRing(text)
		if err != nil {
			if strings.Contains(err.Error(), strings.TrimPrefix(key, keyPrefix)) {
				t.Errorf("the error has the key: %v", err)
			}
			return
		}
		if got, err := ring.openBox("place", ring.sealValue("place", []byte("value"))); err != nil || string(got) != "value" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := ring.openBox("another", ring.sealValue("place", []byte("value"))); err == nil {
			t.Errorf("what was sealed for another place opens as %q", got)
		}
	})
}
