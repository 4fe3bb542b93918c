package server

import "strconv"

// at returns the field name of item i of a list.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
