// Package unset finds the fields of a value that a test does not set, so that no conversion misses a new
// field.
package unset

import "reflect"

// Fields returns the paths of the fields of a structure that have their zero value, also in structures, the
// first elements of lists and the targets of pointers.
func Fields(v any) []string { return unsetFields(reflect.ValueOf(v), "") }

func unsetFields(v reflect.Value, path string) (unset []string) {
	switch {
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	case v.Kind() == reflect.Slice && v.Len() > 0:
		v = v.Index(0)
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		name := path + v.Type().Field(i).Name
		if v.Field(i).IsZero() {
			unset = append(unset, name)
			continue
		}
		unset = append(unset, unsetFields(v.Field(i), name+".")...)
	}
	return unset
}
