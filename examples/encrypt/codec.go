package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// ContentType marks payloads that a Codec sealed.
const ContentType = "application/vnd.rouse.sealed"

// Codec seals payloads with AES-256-GCM. It has several keys, so that they can be replaced: the newest one
// seals, all of them open. A sealed payload is the id of its key, a nonce of 12 bytes, and the ciphertext.
// Namespace and name of the timer are authenticated with it.
type Codec struct {
	newest byte
	keys   map[byte]cipher.AEAD
}

// NewCodec returns a codec with keys of 32 bytes by their ids, of which one seals.
func NewCodec(newest byte, keys map[byte][]byte) (*Codec, error) {
	c := &Codec{newest: newest, keys: map[byte]cipher.AEAD{}}
	for id, key := range keys {
		if len(key) != 32 {
			return nil, fmt.Errorf("key %d has %d bytes; 32 are needed", id, len(key))
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if c.keys[id], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	if c.keys[newest] == nil {
		return nil, fmt.Errorf("there is no key %d", newest)
	}
	return c, nil
}

// Seal encrypts the payload of a timer.
func (c *Codec) Seal(namespace, name string, payload []byte) []byte {
	nonce := make([]byte, 12)
	_, _ = rand.Read(nonce) // never fails
	return c.keys[c.newest].Seal(append([]byte{c.newest}, nonce...), nonce, payload, authenticatedData(namespace, name))
}

// Open decrypts the payload of a fire.
func (c *Codec) Open(namespace, name string, sealed []byte) ([]byte, error) {
	if len(sealed) < 13 || c.keys[sealed[0]] == nil {
		return nil, errors.New("the payload is not sealed with one of the keys")
	}
	return c.keys[sealed[0]].Open(nil, sealed[1:13], sealed[13:], authenticatedData(namespace, name))
}

// authenticatedData returns the data to authenticate with a payload. Neither part has a zero byte.
func authenticatedData(namespace, name string) []byte { return []byte(namespace + "\x00" + name) }
