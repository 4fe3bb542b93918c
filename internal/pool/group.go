package pool

import (
	"strings"

	"github.com/rousehq/rouse"
)

// The values of Config.Namespaces: requests of all namespaces for a key go to one group, or each namespace has
// a group of its own.
const (
	Shared = "shared"
	Apart  = "apart"
)

// groupMark separates namespace and key in the key of a group of one namespace. No UTF-8 contains it, so such a
// group is never taken for one that namespaces share, whatever their keys are.
const groupMark = "\xff"

// SplitGroup returns the namespace and the key of the requests of a group; the namespace is empty if namespaces
// share the group.
func SplitGroup(group string) (namespace, key string) {
	namespace, key, apart := strings.Cut(group, groupMark)
	if !apart {
		return "", group
	}
	return namespace, key
}

// GroupName returns the name of a group in commands, logs and routing keys: KEY, or NAMESPACE/KEY.
func GroupName(group string) string {
	namespace, key := SplitGroup(group)
	if namespace == "" {
		return group
	}
	return namespace + "/" + key
}

// Apart reports whether each namespace has groups of its own.
func (c *Config) Apart() bool { return c.Namespaces == Apart }

// Group returns the group of the requests of a namespace for a key.
func (c *Config) Group(namespace, key string) string {
	if c.Apart() {
		return namespace + groupMark + key
	}
	return key
}

// ParseGroup returns the group with a name.
func (c *Config) ParseGroup(name string) (group string, err error) {
	if err := CheckKey(name); err != nil || !c.Apart() {
		return name, err
	}
	namespace, key, named := strings.Cut(name, "/")
	if !named || rouse.CheckNamespace(namespace) != nil {
		return "", rouse.Refuse("key", rouse.Shorten(name, 64), "names no namespace, and the pool keeps namespaces apart",
			"write NAMESPACE/KEY, or let the pool have namespaces: shared")
	}
	return c.Group(namespace, key), nil
}

// owns reports whether a group is one as the pool has them now. Others are left from a time when the pool had
// the other value of Namespaces: they get no new requests, and end when they have finished theirs.
func (c *Config) owns(group string) bool { return strings.Contains(group, groupMark) == c.Apart() }
