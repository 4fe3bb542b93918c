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

// Placed returns the bucket of a timer: that of its limit and the key that it counts for, so that the owner
// of one bucket counts all fires of it; of the name that route returns for its target, which all timers share
// that the same node is to fire; or of its key.
func Placed(t *Timer, route func(target string) (name string, ok bool), buckets uint32) uint32 {
	k := t.Key
	if t.Spec.Limit != "" {
		k.Name = limitPlace + t.Spec.Limit + limitPlace + t.CountedKey()
	} else if route != nil {
		if name, ok := route(t.Spec.Target); ok {
			k = Key{Name: name}
		}
	}
	return BucketOf(k, buckets)
}

// limitPlace begins the names by which timers with a limit are placed. No timer's name has it.
const limitPlace = "\x01"
