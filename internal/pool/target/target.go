// Package target is the form of the targets of pools, "pool:NAME/KEY". It is apart from the transports,
// because every node puts the timers of a key into one bucket, whether it has pools or not.
package target

import (
	"net/url"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// Scheme is the prefix of targets of pools.
const Scheme = "pool:"

// Of returns the target of a key. The key is escaped by pool.Encode, so each key has one canonical
// target.
func Of(name, key string) string { return Scheme + name + "/" + pool.Encode(key, 3*pool.MaxKey) }

// Channel returns the channel of the workers of a group: its target, with the namespace before the key if
// namespaces do not share the group. Keys are escaped, so the namespace ends with the only further slash.
func Channel(name, group string) string {
	namespace, key := pool.SplitGroup(group)
	if namespace != "" {
		name += "/" + namespace
	}
	return Of(name, key)
}

// ParseChannel returns the pool, the key and the namespace of a channel; the namespace is empty if it has
// none.
func ParseChannel(channel string) (name, key, namespace string, err error) {
	name, escaped, _ := splitTarget(channel)
	namespace, escaped, apart := strings.Cut(escaped, "/")
	if !apart {
		name, key, err = Parse(channel)
		return name, key, "", err
	}
	if err := rouse.CheckNamespace(namespace); err != nil {
		return "", "", "", rouse.Under("channel", err)
	}
	name, key, err = Parse(Scheme + name + "/" + escaped)
	return name, key, namespace, err
}

// splitTarget returns the parts of a target without unescaping them.
func splitTarget(target string) (name, escaped string, ok bool) {
	rest, is := strings.CutPrefix(target, Scheme)
	name, escaped, ok = strings.Cut(rest, "/")
	return name, escaped, ok && is
}

// Pool returns the name of the pool of a target, which need not be one.
func Pool(target string) (name string, ok bool) {
	name, _, ok = splitTarget(target)
	return name, ok
}

// Parse returns the pool and the key of a target. It accepts unescaped characters, too, and slashes after the
// first belong to the key.
func Parse(target string) (name, key string, err error) {
	name, escaped, ok := splitTarget(target)
	if !ok {
		return "", "", rouse.Refuse("target", target, "is no target of a pool", "use pool:NAME/KEY, such as pool:core/42")
	}
	if err := pool.CheckName(name); err != nil {
		return "", "", rouse.Under("target", err)
	}
	if key, err = url.PathUnescape(escaped); err != nil {
		return "", "", rouse.Refuse("target", target, "is not escaped properly",
			"write a byte of the key as % and two hexadecimal digits")
	}
	if err := pool.CheckKey(key); err != nil {
		return "", "", rouse.Under("target", err)
	}
	return name, key, nil
}

// Route returns the canonical name of the key of a target: all its requests are fired by one node, so the key
// has one group.
func Route(target string) (name string, ok bool) {
	if !strings.HasPrefix(target, Scheme) {
		return "", false
	}
	pool, key, err := Parse(target)
	return Of(pool, key), err == nil
}

// Checked is Of for untrusted input: it refuses invalid names of pools and invalid keys.
func Checked(name, key string) (string, error) {
	if err := pool.CheckName(name); err != nil {
		return "", rouse.Under("pool", err)
	}
	if err := pool.CheckKey(key); err != nil {
		return "", err
	}
	return Of(name, key), nil
}
