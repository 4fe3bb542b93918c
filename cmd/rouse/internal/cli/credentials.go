package cli

import (
	"strings"

	"github.com/rousehq/rouse"
)

// maxKeyFile bounds the file of a key.
const maxKeyFile = 4096

// ReadToken returns the key to send, "" if there is none.
func (f *globalFlags) ReadToken(a *App, env func(string) string) (string, error) {
	text := env("ROUSE_KEY")
	if f.KeyFile != "" {
		b, err := ReadUpTo(a.In, "key-file", f.KeyFile, maxKeyFile)
		if err != nil {
			return "", err
		}
		text, _, _ = strings.Cut(strings.TrimSpace(string(b)), "\n")
	}
	return validKey(text)
}

// validKey returns a key without the white space around it.
func validKey(text string) (string, error) {
	if text = strings.TrimSpace(text); strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &rouse.Invalid{Problems: []rouse.Problem{{Field: "key", Wrong: "has characters that no key has",
			Cure: "give a key as rouse key create prints it"}}}
	}
	return text, nil
}
