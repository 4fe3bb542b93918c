package driver

import "strings"

// groupMark separates namespace and key in the key of a group of one namespace. No UTF-8 contains it, so such
// a group is never taken for one that namespaces share, whatever their keys are.
const groupMark = "\xff"

// GroupOf returns the key of the group of a namespace for the requests of a key.
func GroupOf(namespace, key string) string { return namespace + groupMark + key }

// SplitGroup returns the namespace and the key of the requests of a group, whose own key contains both; the
// namespace is empty if namespaces share the group.
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
