package pool

import (
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// The values of Config.Namespaces: requests of all namespaces for a key go to one group, or each namespace
// has a group of its own.
const (
	Shared = "shared"
	Apart  = "apart"
)

// SplitGroup returns the namespace and the key of the requests of a group, as driver.SplitGroup.
func SplitGroup(group string) (namespace, key string) { return driver.SplitGroup(group) }

// GroupName returns the name of a group in commands, logs and routing keys, as driver.GroupName.
func GroupName(group string) string { return driver.GroupName(group) }

// Apart reports whether each namespace has groups of its own.
func (c *Config) Apart() bool { return c.Namespaces == Apart }

// Group returns the group of the requests of a namespace for a key.
func (c *Config) Group(namespace, key string) string {
	if c.Apart() {
		return driver.GroupOf(namespace, key)
	}
	return key
}

// ParseGroup returns the group with a name.
func (c *Config) ParseGroup(name string) (group string, err error) {
	if !c.Apart() {
		return name, CheckKey(name)
	}
	namespace, key, named := strings.Cut(name, "/")
	if !named || rouse.CheckNamespace(namespace) != nil {
		return "", rouse.Refuse("key", rouse.Shorten(name, 64), "names no namespace, and the pool keeps namespaces apart",
			"write NAMESPACE/KEY, or let the pool have namespaces: shared")
	}
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return c.Group(namespace, key), nil
}

// ownsGroup reports whether a group is one as the pool has them now. Others are left from a time when the
// pool had the other value of Namespaces: they get no new requests, and end when they have finished theirs.
func (c *Config) ownsGroup(group string) bool {
	namespace, _ := SplitGroup(group)
	return (namespace != "") == c.Apart()
}
