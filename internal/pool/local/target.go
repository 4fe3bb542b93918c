package local

import (
	"net/url"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// Scheme begins the targets of pools.
const Scheme = "pool:"

// Target returns the target of a key: the key is escaped as pool.Encode does, so that it is the same wherever it is written.
func Target(name, key string) string { return Scheme + name + "/" + pool.Encode(key, 3*pool.MaxKey) }

// split returns the parts of a target as they are written.
func split(target string) (name, escaped string, ok bool) {
	rest, is := strings.CutPrefix(target, Scheme)
	name, escaped, ok = strings.Cut(rest, "/")
	return name, escaped, ok && is
}

// Parse returns the pool and the key that a target names. What is not escaped stands for itself, whatever Encode would write, and
// slashes behind the first are the key's.
func Parse(target string) (name, key string, err error) {
	name, escaped, ok := split(target)
	if !ok {
		return "", "", rouse.Refuse("target", target, "is no target of a pool", "use pool:NAME/KEY, such as pool:core/42")
	}
	if err := pool.CheckName(name); err != nil {
		return "", "", rouse.Under("target", err)
	}
	if key, err = url.PathUnescape(escaped); err != nil {
		return "", "", rouse.Refuse("target", target, "is not escaped properly", "write a byte of the key as % and two hexadecimal digits")
	}
	if err := pool.CheckKey(key); err != nil {
		return "", "", rouse.Under("target", err)
	}
	return name, key, nil
}

// Route names the key that a target is of, however it is written: its requests are fired by one node, so that the key has one group.
func Route(target string) (name string, ok bool) {
	if !strings.HasPrefix(target, Scheme) {
		return "", false
	}
	pool, key, err := Parse(target)
	return Target(pool, key), err == nil
}

// clone lets go of the timer's row, which a target may be a part of.
func clone(target string) string { return strings.Clone(target) }

// CheckedTarget is Target for what somebody else says: it refuses what is no name of a pool and what is no key.
func CheckedTarget(name, key string) (string, error) {
	if err := pool.CheckName(name); err != nil {
		return "", rouse.Under("pool", err)
	}
	if err := pool.CheckKey(key); err != nil {
		return "", err
	}
	return Target(name, key), nil
}
