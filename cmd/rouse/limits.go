package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse/node"
)

// limitList are limits of targets as a setting has them: the beginning of a target and what bounds it, one after another, with
// semicolons or line ends between.
//
//	https://api.example.com/ rate=10 burst=20; stream:mail namespace=acme concurrency=5
type limitList []node.Limit

// UnmarshalText reads limits. Whether they make sense is for the node to say.
func (l *limitList) UnmarshalText(text []byte) error {
	*l = nil
	for part := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		limit := node.Limit{Target: words[0]}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			var err error
			switch name {
			case "namespace":
				limit.Namespace = value
			case "rate":
				limit.Rate, err = strconv.ParseFloat(value, 64)
			case "burst":
				limit.Burst, err = strconv.Atoi(value)
			case "concurrency":
				limit.Concurrency, err = strconv.Atoi(value)
			default:
				return fmt.Errorf("%q is not namespace=, rate=, burst= or concurrency=", word)
			}
			if err != nil {
				return fmt.Errorf("%s of %s: %q is no number", name, limit.Target, value)
			}
		}
		*l = append(*l, limit)
	}
	return nil
}

// String returns limits as UnmarshalText reads them.
func (l limitList) String() string {
	parts := make([]string, len(l))
	for i, limit := range l {
		parts[i] = limit.Target
		if limit.Namespace != "" {
			parts[i] += " namespace=" + limit.Namespace
		}
		if limit.Rate != 0 {
			parts[i] += " rate=" + strconv.FormatFloat(limit.Rate, 'g', -1, 64)
		}
		if limit.Burst != 0 {
			parts[i] += " burst=" + strconv.Itoa(limit.Burst)
		}
		if limit.Concurrency != 0 {
			parts[i] += " concurrency=" + strconv.Itoa(limit.Concurrency)
		}
	}
	return strings.Join(parts, "; ")
}

// shareList are the shares of namespaces as a setting has them: "acme=4, batch=1".
type shareList map[string]int

// UnmarshalText reads shares.
func (l *shareList) UnmarshalText(text []byte) error {
	*l = nil
	for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return strings.ContainsRune(", \n\t", r) }) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is no share such as acme=4", word)
		}
		if _, twice := (*l)[name]; twice {
			return fmt.Errorf("the namespace %q is given twice", name)
		}
		if *l == nil {
			*l = shareList{}
		}
		(*l)[name] = n
	}
	return nil
}

// String returns shares as UnmarshalText reads them.
func (l shareList) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, name+"="+strconv.Itoa(l[name]))
	}
	return strings.Join(parts, ", ")
}

// nameList is a list of names with commas between.
type nameList []string

// UnmarshalText reads names. Whether they are offered is for the node to say.
func (l *nameList) UnmarshalText(text []byte) error {
	*l = nil
	for part := range strings.SplitSeq(string(text), ",") {
		if name := strings.TrimSpace(part); name != "" {
			*l = append(*l, name)
		}
	}
	return nil
}

// String returns names as UnmarshalText reads them.
func (l nameList) String() string { return strings.Join(l, ",") }
