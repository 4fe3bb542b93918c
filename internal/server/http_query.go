package server

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// params are query parameters, all of them known.
type params url.Values

// repeated are the parameters that may occur more than once.
var repeated = []string{"label", "state", "ending", "cause"}

// parseQueryParams parses the query and refuses unknown names: a misspelt filter would match everything.
func (c *call) parseQueryParams(names []string) (params, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, refuseMalformed("query", printableText(c.r.URL.RawQuery), "is not escaped properly",
			"write a byte as % and two hexadecimal digits")
	}
	for name, list := range values {
		switch {
		case !slices.Contains(names, name):
			cure := "leave it out"
			if len(names) > 0 {
				cure = "use " + strings.Join(names, ", ")
			}
			return nil, refuseMalformed(printableText(name), "", "is no parameter of this request", cure)
		case len(list) > 1 && !slices.Contains(repeated, name):
			return nil, refuseMalformed(name, "", "is given twice", "give it once")
		}
		for _, v := range list {
			if !utf8.ValidString(v) {
				return nil, refuseMalformed(name, printableText(v), "is not UTF-8", "send UTF-8")
			}
		}
	}
	return params(values), nil
}

func (p params) textParam(name string) string { return url.Values(p).Get(name) }

func (p params) numberParam(name string, bits int) (uint64, error) {
	s := p.textParam(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, refuseMalformed(name, s, "is no whole number within bounds", "give digits only")
	}
	return n, nil
}

// countParam reads a number of 32 bits.
func (p params) countParam(name string) (uint32, error) {
	n, err := p.numberParam(name, 32)
	return uint32(n), err
}

// flagParam reads a parameter that is true or false; without a value it is true.
func (p params) flagParam(name string) (bool, error) {
	if values, given := p[name]; !given {
		return false, nil
	} else if values[0] == "" {
		return true, nil
	}
	v, err := strconv.ParseBool(p.textParam(name))
	if err != nil {
		return false, refuseMalformed(name, printableText(p.textParam(name)), "is neither true nor false",
			"give true, or leave it out")
	}
	return v, nil
}

func (p params) instantParam(name string) (rouse.Instant, error) {
	s := p.textParam(name)
	if s == "" {
		return 0, nil
	}
	i, err := rouse.ParseInstant(s)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		p := inv.Problems[0]
		return 0, refuseMalformed(name, printableText(s), p.Wrong, p.Cure+", with + written %2B")
	}
	return i, err
}

// pageParams reads the parameters that all lists share.
func (p params) pageParams() (size uint32, token string, err error) {
	size, err = p.countParam("page_size")
	return size, p.textParam("page_token"), err
}

// everywhere in place of a namespace means all namespaces. It is not a valid name.
const everywhere = rousev1.AllNamespaces

// soughtParams reads the text, target and code to search for.
func (p params) soughtParams() (s rouse.Sought, err error) {
	code, err := p.numberParam("code", 16)
	return rouse.Sought{Text: p.textParam("text"), Target: p.textParam("target"), Code: int(code)}, err
}

// orderParams reads the order of a list.
func (p params) orderParams(q *rouse.Query) (err error) {
	if q.Reverse, err = p.flagParam("reverse"); err != nil {
		return err
	}
	q.Order, err = rouse.ParseOrder(p.textParam("order_by"))
	return err
}

// labelParams reads the labels of a filter.
func (p params) labelParams() (map[string]string, error) {
	var labels map[string]string
	for _, pair := range p["label"] {
		k, v, ok := strings.Cut(pair, "=")
		if before, twice := labels[k]; !ok || twice && before != v {
			return nil, refuseMalformed("label", pair, "is no label, or contradicts another", "give NAME=VALUE, each name once")
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[k] = v
	}
	return labels, nil
}

// historyParams reads the parameters of a query of records.
func (p params) historyParams(namespace string) (q rouse.RecordQuery, err error) {
	q = rouse.RecordQuery{Namespace: namespace, Prefix: p.textParam("prefix")}
	if namespace == everywhere {
		q.Namespace = ""
	} else if err := rouse.CheckNamespace(namespace); err != nil {
		return q, err
	}
	for _, name := range p["ending"] {
		e, err := rouse.ParseEnding(name)
		if err != nil {
			return q, wrapMalformed(err)
		}
		q.Endings = append(q.Endings, e)
	}
	for _, name := range p["cause"] {
		c, ok := rouse.ParseCause(name)
		if !ok {
			return q, refuseMalformed("cause", printableText(name), "is no cause", "give one that docs/policies.md lists")
		}
		q.Causes = append(q.Causes, c)
	}
	if q.Labels, err = p.labelParams(); err != nil {
		return q, err
	}
	if q.Sought, err = p.soughtParams(); err != nil {
		return q, err
	}
	if q.From.Ended, err = p.instantParam("from"); err != nil {
		return q, err
	}
	q.Until.Ended, err = p.instantParam("until")
	return q, err
}

// filterParams reads the parameters of a filter.
func (p params) filterParams(namespace string) (rouse.Query, error) {
	q := rouse.Query{Namespace: namespace, Prefix: p.textParam("prefix"), Name: p.textParam("name")}
	if namespace == everywhere {
		q.Namespace = ""
	} else if err := rouse.CheckNamespace(namespace); err != nil {
		return q, err
	}
	var err error
	if q.Labels, err = p.labelParams(); err != nil {
		return q, err
	}
	if q.Sought, err = p.soughtParams(); err != nil {
		return q, err
	}
	for _, name := range p["state"] {
		s, err := rouse.ParseState(name)
		if err != nil {
			return q, wrapMalformed(err)
		}
		q.States = append(q.States, s)
	}
	if q.DueFrom, err = p.instantParam("due_from"); err != nil {
		return q, err
	}
	q.DueUntil, err = p.instantParam("due_until")
	return q, err
}
