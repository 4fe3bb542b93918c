package webhook

import (
	"bytes"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// secretPause is how long fires are put off that need a secret that is missing. A node sees a secret that
// another one has written within a few seconds.
const secretPause = 5 * time.Second

// waiting is the error of a request for which a secret is missing, or has a value that cannot be sent. No
// attempt is spent: receivers are not to blame, and the request would be refused by all of them.
type waiting struct{ why string }

func (w *waiting) Error() string { return w.why }

func (w *waiting) deferredOutcome() rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSecret, After: secretPause,
		Detail: makeExcerpt("not sent: ", w.why)}
}

// expandSecrets returns the value of a header with its secrets. If one is missing, it sets the request's
// error.
func (s *Sink) expandSecrets(r *request, namespace, header, value string) string {
	host, _ := r.hostAndPort()
	whole := value
	value, err := rouse.ExpandSecrets(value, func(name string) (secret string, err error) {
		c, err := s.opts.Credential(namespace, name, host)
		switch {
		case err != nil:
			return "", err
		case c != nil:
			secret, err = s.expandCredential(r, tokenKey{namespace, name}, c, header, whole)
		default:
			secret, err = s.opts.Secret(namespace, name, host)
		}
		r.used = append(r.used, secret)
		return secret, err
	})
	switch {
	case err != nil:
		r.err = &waiting{"the header " + header + ": " + err.Error()}
	case !rouse.IsHeaderValue(value) || len(value) > maxHeader:
		r.err = &waiting{"the header " + header + " cannot be sent with the value of its secret: give it another one"}
	}
	return value
}

// hideSecrets returns a receiver's text without secrets of its request: some receivers answer with the
// headers that they got, and the beginning of an answer is kept and shown. A secret that is cut off at the
// end of the text is hidden, too.
func hideSecrets(text []byte, secrets []string) []byte {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		text = bytes.ReplaceAll(text, []byte(secret), []byte(mask))
		for n := min(len(secret)-1, len(text)); n >= shortest; n-- {
			if bytes.HasSuffix(text, []byte(secret[:n])) {
				text = append(text[:len(text)-n:len(text)-n], mask...)
				break
			}
		}
	}
	return text
}

const (
	mask     = "[secret]"
	shortest = 4 // bytes of a secret that are hidden at the end of a text
)

// maxHeader bounds the value of a header after its secrets have been filled in.
const maxHeader = rouse.MaxHeaderValue + rouse.MaxSecret

// dropsHeader reports whether the operator wants a header not to be sent.
func (s *Sink) dropsHeader(canonical string) bool {
	for _, name := range s.opts.DropHeaders {
		if prefix, open := strings.CutSuffix(name, "*"); canonical == name || open && strings.HasPrefix(canonical, prefix) {
			return true
		}
	}
	return false
}

// Obstacle returns the reason why requests of the spec are impossible: a secret that is missing, or may not
// be sent there.
func (s *Sink) Obstacle(namespace string, spec *rouse.Spec) string {
	if _, err := s.opts.Signing(namespace); err != nil {
		return makeExcerpt("", err.Error())
	}
	host, _ := placeOf(spec.Target).hostAndPort()
	for _, ref := range spec.Webhook.SecretNames() {
		c, err := s.opts.Credential(namespace, ref.Name, host)
		switch {
		case err == nil && c == nil:
			_, err = s.opts.Secret(namespace, ref.Name, host)
		case err == nil && c.OAuth != nil:
			_, err = s.tokens.presentToken(tokenKey{namespace, ref.Name}, c)
		}
		if err != nil {
			return makeExcerpt("the header "+ref.Header+": ", err.Error())
		}
	}
	return ""
}
