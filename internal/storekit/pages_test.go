package storekit

import (
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

func key(name string) rouse.Key { return rouse.Key{Namespace: "default", Name: name} }

// of returns a page of rows with these names. The source has more rows if there is a "+" at the end.
func of(names string) (p rouse.Page) {
	names, more := strings.CutSuffix(names, "+")
	for _, name := range strings.Fields(names) {
		p.Rows = append(p.Rows, rouse.Row{Key: key(name)})
	}
	if more {
		p.Next = &p.Rows[len(p.Rows)-1].Key // as stores return it
	}
	return p
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		limit   int
		sources []string
		want    string
	}{
		{10, nil, ""},
		{10, []string{"b d", "a c"}, "a b c d"},
		{3, []string{"b d", "a c"}, "a b c+"},
		{4, []string{"b d", "a c"}, "a b c d"},
		{10, []string{"b d+", "a c e"}, "a b c d+"},
		{10, []string{"d e+", "a b+"}, "a b+"},
		{1, []string{"d e+", "a b+"}, "a+"},
	} {
		var sources []rouse.Page
		for _, s := range c.sources {
			sources = append(sources, of(s))
		}
		got, want := MergePages(c.limit, sources...), of(c.want)
		same := len(got.Rows) == len(want.Rows) && (got.Next == nil) == (want.Next == nil) && (got.Next == nil || *got.Next == *want.Next)
		for i := range want.Rows {
			same = same && got.Rows[i].Key == want.Rows[i].Key
		}
		if !same {
			t.Errorf("%d of %q: %+v, want %q", c.limit, c.sources, got, c.want)
		}
	}
}
