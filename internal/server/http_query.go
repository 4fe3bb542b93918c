package server

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// params are query parameters, all of them known.
type params url.Values

// repeated are the parameters that may occur more than once.
var repeated = []string{"label", "state"}

// query parses the query and refuses unknown names: a misspelt filter would match everything.
func (c *call) query(names []string) (params, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, malformed("query", shown(c.r.URL.RawQuery), "is not escaped properly", "write a byte as % and two hexadecimal digits")
	}
	for name, list := range values {
		switch {
		case !slices.Contains(names, name):
			cure := "leave it out"
			if len(names) > 0 {
				cure = "use " + strings.Join(names, ", ")
			}
			return nil, malformed(shown(name), "", "is no parameter of this request", cure)
		case len(list) > 1 && !slices.Contains(repeated, name):
			return nil, malformed(name, "", "is given twice", "give it once")
		}
		for _, v := range list {
			if !utf8.ValidString(v) {
				return nil, malformed(name, shown(v), "is not UTF-8", "send UTF-8")
			}
		}
	}
	return params(values), nil
}

func (p params) text(name string) string { return url.Values(p).Get(name) }

func (p params) number(name string, bits int) (uint64, error) {
	s := p.text(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, malformed(name, s, "is no whole number within bounds", "give digits only")
	}
	return n, nil
}

func (p params) instant(name string) (rouse.Instant, error) {
	s := p.text(name)
	if s == "" {
		return 0, nil
	}
	i, err := rouse.ParseInstant(s)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		p := inv.Problems[0]
		return 0, malformed(name, shown(s), p.Wrong, p.Cure+", with + written %2B")
	}
	return i, err
}

// page reads the parameters that all lists share.
func (p params) page() (size uint32, token string, err error) {
	n, err := p.number("page_size", 32)
	return uint32(n), p.text("page_token"), err
}

// pageNames are the parameters that all lists share.
var pageNames = []string{"page_size", "page_token"}

// everywhere in place of a namespace means all namespaces. It is not a valid name.
const everywhere = "-"

// filterNames are the parameters of a filter.
var filterNames = []string{"prefix", "name", "label", "state", "due_from", "due_until"}

// filter reads the parameters of a filter.
func (p params) filter(namespace string) (rouse.Query, error) {
	q := rouse.Query{Namespace: namespace, Prefix: p.text("prefix"), Name: p.text("name")}
	if namespace == everywhere {
		q.Namespace = ""
	} else if err := rouse.CheckNamespace(namespace); err != nil {
		return q, err
	}
	for _, pair := range p["label"] {
		k, v, ok := strings.Cut(pair, "=")
		if before, twice := q.Labels[k]; !ok || twice && before != v {
			return q, malformed("label", pair, "is no label, or contradicts another", "give NAME=VALUE, each name once")
		}
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		q.Labels[k] = v
	}
	for _, name := range p["state"] {
		s, err := rouse.ParseState(name)
		if err != nil {
			return q, unread(err)
		}
		q.States = append(q.States, s)
	}
	var err error
	if q.DueFrom, err = p.instant("due_from"); err != nil {
		return q, err
	}
	q.DueUntil, err = p.instant("due_until")
	return q, err
}
