package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Tolerance is the maximum difference between a signature's time and the verifier's, in the past or the
// future.
const Tolerance = 5 * time.Minute

const secretPrefix = "whsec_"

// Errors of Verify.
var (
	ErrUnsigned  = errors.New("the request is not signed: a webhook- header is missing")
	ErrTimestamp = errors.New("the signature is too old or too new")
	ErrSignature = errors.New("no signature matches")
)

// errSecret does not contain the secret.
var errSecret = errors.New(`a signing secret is "whsec_" and the base64 form of 24 to 64 bytes`)

// NewSecret returns a random signing secret.
func NewSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// CheckSecret refuses an invalid signing secret; the error does not contain it.
func CheckSecret(secret string) error {
	_, err := secretKey(secret)
	return err
}

func secretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, errSecret
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errSecret
	}
	return key, nil
}

// Sign returns the signature of Standard Webhooks, "v1,…", for a message with the given id and body, sent
// at a Unix time.
func Sign(secret, id string, timestamp int64, body []byte) (string, error) {
	key, err := secretKey(secret)
	if err != nil {
		return "", err
	}
	var buf [64]byte
	return string(appendSignature(buf[:0], key, id, timestamp, body)), nil
}

// appendSignature appends "v1," and the base64 form of the HMAC-SHA-256 over id, timestamp and body,
// separated by dots.
func appendSignature(dst, key []byte, id string, timestamp int64, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	head := make([]byte, 0, 96)
	head = append(append(head, id...), '.')
	head = append(strconv.AppendInt(head, timestamp, 10), '.')
	mac.Write(head)
	mac.Write(body)
	var sum [sha256.Size]byte
	dst = append(dst, "v1,"...)
	return base64.StdEncoding.AppendEncode(dst, mac.Sum(sum[:0]))
}

// signatures returns one signature for each of the secrets, separated by spaces.
func signatures(secrets []string, id string, timestamp int64, body []byte) (string, error) {
	buf := make([]byte, 0, 48*len(secrets))
	for _, secret := range secrets {
		key, err := secretKey(secret)
		if err != nil {
			return "", err
		}
		if len(buf) > 0 {
			buf = append(buf, ' ')
		}
		buf = appendSignature(buf, key, id, timestamp, body)
	}
	return string(buf), nil
}

// Verify checks that a request was signed with one of the secrets, at most Tolerance from now. The body has
// to be unchanged, byte for byte.
func Verify(secrets []string, header http.Header, body []byte, now time.Time) error {
	id, stamp, given := header.Get(HeaderID), header.Get(HeaderTimestamp), header.Get(HeaderSignature)
	if id == "" || stamp == "" || given == "" {
		return ErrUnsigned
	}
	timestamp, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %.32q is no Unix time", ErrTimestamp, stamp)
	}
	if t := time.Unix(timestamp, 0); t.Before(now.Add(-Tolerance)) || t.After(now.Add(Tolerance)) {
		return fmt.Errorf("%w: made at %d, now is %d", ErrTimestamp, timestamp, now.Unix())
	}
	for _, secret := range secrets {
		key, err := secretKey(secret)
		if err != nil {
			return err
		}
		var buf [64]byte
		want := appendSignature(buf[:0], key, id, timestamp, body)
		for one := range strings.SplitSeq(given, " ") {
			if hmac.Equal([]byte(one), want) {
				return nil
			}
		}
	}
	return ErrSignature
}
