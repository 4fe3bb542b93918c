package server

import "strconv"

// at is the field of a list's i-th item.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
