package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits are limits of targets as a setting is written: the beginning of a target and its bounds, one after
// another, with semicolons or line ends between.
//
//	https://api.example.com/ rate=10 burst=20; stream:mail namespace=acme concurrency=5
type Limits []Limit

// UnmarshalText reads limits. Config.Check checks them.
func (l *Limits) UnmarshalText(text []byte) error {
	*l = nil
	for part := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		limit := Limit{Target: words[0]}
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
func (l Limits) String() string {
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

// Shares are the shares of namespaces as a setting is written: "acme=4, batch=1".
type Shares map[string]int

// UnmarshalText reads shares.
func (l *Shares) UnmarshalText(text []byte) error {
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
			*l = Shares{}
		}
		(*l)[name] = n
	}
	return nil
}

// String returns shares as UnmarshalText reads them.
func (l Shares) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, name+"="+strconv.Itoa(l[name]))
	}
	return strings.Join(parts, ", ")
}

// Names is a list of names with commas between.
type Names []string

// UnmarshalText reads names. Config.Check checks them.
func (l *Names) UnmarshalText(text []byte) error {
	*l = nil
	for part := range strings.SplitSeq(string(text), ",") {
		if name := strings.TrimSpace(part); name != "" {
			*l = append(*l, name)
		}
	}
	return nil
}

// String returns names as UnmarshalText reads them.
func (l Names) String() string { return strings.Join(l, ",") }

// Kind describes a value for errors.
func (Limits) Kind() string { return "limits such as 'https://api.example.com/ rate=10 concurrency=4'" }

// Kind describes a value for errors.
func (Shares) Kind() string { return "shares such as 'acme=4, batch=1'" }

// Kind describes a value for errors.
func (Names) Kind() string { return "names with commas between" }
