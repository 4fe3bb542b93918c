package rouse

import "hash/fnv"

// BucketOf returns the bucket of a timer, and of the rows beside it, among so many: the same on every node.
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
