package rouse

import "hash/fnv"

// BucketOf returns the bucket of a timer, and of the rows next to it, for a number of buckets. It is the same
// on every node.
func BucketOf(k Key, buckets uint32) uint32 {
	if buckets <= 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(k.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(k.Name))
	return h.Sum32() % buckets
}

// Placed returns the bucket of a timer of a target: of the name that route returns, which all timers share
// that the same node is to fire, or of its key if route is nil or returns no name.
func Placed(k Key, target string, route func(target string) (name string, ok bool), buckets uint32) uint32 {
	if route != nil {
		if name, ok := route(target); ok {
			k = Key{Name: name}
		}
	}
	return BucketOf(k, buckets)
}
