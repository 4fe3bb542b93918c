package rouse

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestLimitsThatAreRefused(t *testing.T) {
	minute := LimitRate{Count: 1, Per: time.Minute}
	for _, c := range []struct {
		field string // "": it is taken
		edit  func(*Limit)
	}{
		{"", func(*Limit) {}},
		{"", func(l *Limit) { l.Concurrency, l.Order, l.PerKey, l.Paused = MaxConcurrency, OrderByDue, true, true }},
		{"", func(l *Limit) { l.Rate = LimitRate{MaxLimitRate, MinLimitPer, MaxLimitRate} }},
		{"", func(l *Limit) { l.Rate = LimitRate{1, MaxLimitPer, 0} }},
		{"namespace", func(l *Limit) { l.Namespace = "" }},
		{"name", func(l *Limit) { l.Name = "" }},
		{"name", func(l *Limit) { l.Name = "a/b" }},
		{"name", func(l *Limit) { l.Name = strings.Repeat("x", MaxNamespace+1) }},
		{"concurrency", func(l *Limit) { l.Concurrency = 0 }},
		{"concurrency", func(l *Limit) { l.Concurrency, l.Order = 0, OrderByDue }},
		{"", func(l *Limit) { l.Concurrency, l.Paused = 0, true }},
		{"concurrency", func(l *Limit) { l.Concurrency = -1 }},
		{"concurrency", func(l *Limit) { l.Concurrency = MaxConcurrency + 1 }},
		{"rate.count", func(l *Limit) { l.Rate = LimitRate{MaxLimitRate + 1, time.Minute, 0} }},
		{"rate.count", func(l *Limit) { l.Rate.Count = -1 }},
		{"rate.count", func(l *Limit) { l.Rate.Per = time.Minute }},
		{"rate.count", func(l *Limit) { l.Rate.Burst = 1 }},
		{"rate.burst", func(l *Limit) { l.Rate = minute; l.Rate.Burst = -1 }},
		{"rate.burst", func(l *Limit) { l.Rate = minute; l.Rate.Burst = MaxLimitRate + 1 }},
		{"rate.burst", func(l *Limit) { l.Rate = LimitRate{1, 24 * time.Hour, 200_000} }},
		{"", func(l *Limit) { l.Rate = LimitRate{1, 24 * time.Hour, 31} }},
		{"rate.per", func(l *Limit) { l.Rate.Count = 1 }},
		{"rate.per", func(l *Limit) { l.Rate = LimitRate{1, MinLimitPer - 1, 0} }},
		{"rate.per", func(l *Limit) { l.Rate = LimitRate{1, MaxLimitPer + 1, 0} }},
		{"order", func(l *Limit) { l.Order = "name" }},
	} {
		l := Limit{Namespace: "ns", Name: "l", Concurrency: 1}
		c.edit(&l)
		err := l.Check()
		if fieldOf(err) != c.field || (err == nil) != (c.field == "") {
			t.Errorf("%+v: %v, want the field %q refused", l, err, c.field)
		}
		if inv, ok := errors.AsType[*Invalid](err); ok && inv.Problems[0].Cure == "" {
			t.Errorf("%v has no cure", err)
		}
	}
}

func TestTheRateOfALimit(t *testing.T) {
	for _, c := range []struct {
		rate     LimitRate
		interval time.Duration
		atOnce   int
	}{
		{LimitRate{}, 0, 0},
		{LimitRate{1, time.Minute, 0}, time.Minute, 1},
		{LimitRate{600, time.Minute, 0}, 100 * time.Millisecond, 1},
		{LimitRate{100, time.Second, 0}, 10 * time.Millisecond, 10},
		{LimitRate{1, time.Minute, 5}, time.Minute, 5},
	} {
		if i, n := c.rate.Interval(), c.rate.AtOnce(); i != c.interval || n != c.atOnce {
			t.Errorf("%+v: %v, %d, want %v, %d", c.rate, i, n, c.interval, c.atOnce)
		}
	}
}

// TestTimersOfALimitHaveOneBucket: its owner counts them all; those of other keys, limits and namespaces may
// have others.
func TestTimersOfALimitHaveOneBucket(t *testing.T) {
	const buckets = 1 << 20
	routed := func(string) (string, bool) { return "somewhere", true }
	place := func(namespace, name string, s Spec, route func(string) (string, bool)) uint32 {
		return Placed(&Timer{Key: Key{Namespace: namespace, Name: name}, Spec: s}, route, buckets)
	}
	one := place("ns", "a", Spec{Limit: "l", LimitKey: "k"}, nil)
	if two := place("ns", "b", Spec{Limit: "l", LimitKey: "k", Target: "x:"}, routed); one != two {
		t.Errorf("timers of one limit are in the buckets %d and %d", one, two)
	}
	for what, other := range map[string]uint32{
		"another key":       place("ns", "a", Spec{Limit: "l", LimitKey: "k2"}, nil),
		"another limit":     place("ns", "a", Spec{Limit: "l2", LimitKey: "k"}, nil),
		"another namespace": place("ns2", "a", Spec{Limit: "l", LimitKey: "k"}, nil),
		"no limit":          place("ns", "a", Spec{}, nil),
		"a split elsewhere": place("ns", "a", Spec{Limit: "lk"}, nil),
	} {
		if other == one {
			t.Errorf("%s has the same bucket, %d", what, one)
		}
	}
}

// TestTheUseOfNodesAddsUp: the keys of which most wait are those of all nodes together.
func TestTheUseOfNodesAddsUp(t *testing.T) {
	one := LimitUse{Waiting: 7, InProgress: 2, Oldest: 50, Began: 1.5, Keys: []LimitKeyUse{{"a", 5, 1, 50}, {"b", 2, 1, 60}}}
	one.Merge(&LimitUse{Waiting: 5, InProgress: 3, Oldest: 40, Began: 0.5, Keys: []LimitKeyUse{{"b", 4, 1, 40}, {"c", 1, 2, 0}, {"d", 1, 1, 0}}})
	want := LimitUse{Waiting: 12, InProgress: 5, Oldest: 40, Began: 2, Keys: []LimitKeyUse{{"b", 6, 2, 40}, {"a", 5, 1, 50}, {"c", 1, 2, 0}, {"d", 1, 1, 0}}}
	if !reflect.DeepEqual(one, want) {
		t.Errorf("%+v, want %+v", one, want)
	}
	one.Merge(&LimitUse{})
	if !reflect.DeepEqual(one, want) {
		t.Errorf("with nothing: %+v", one)
	}
	for i := range MaxLimitKeysShown {
		one.AddKey(LimitKeyUse{Key: fmt.Sprint("k", i), Waiting: 3})
	}
	if n := len(one.Keys); n != MaxLimitKeysShown || !one.More || one.Keys[0].Key != "b" || one.Keys[n-1].Waiting != 3 {
		t.Errorf("of many keys: %+v", one)
	}
}
