package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/rousehq/rouse/node"
)

func TestLimitsAreReadAndPrinted(t *testing.T) {
	var l node.Limits
	text := "https://api.example.com/ rate=2.5 burst=20 concurrency=4; stream:mail namespace=acme rate=100"
	if err := l.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := node.Limits{{Target: "https://api.example.com/", Rate: 2.5, Burst: 20, Concurrency: 4}, {Target: "stream:mail", Namespace: "acme", Rate: 100}}
	if !reflect.DeepEqual(l, want) || l.String() != text {
		t.Errorf("%+v, %q", l, l)
	}
	if err := l.UnmarshalText([]byte(" \n a: rate=1;;\n\tb: concurrency=2\n")); err != nil || !reflect.DeepEqual(l, node.Limits{{Target: "a:", Rate: 1}, {Target: "b:", Concurrency: 2}}) {
		t.Errorf("over lines: %+v, %v", l, err)
	}
	for _, wrong := range []string{"a: rate", "a: rate=fast", "a: burst=1.5", "a: b:", "a: speed=1"} {
		if err := l.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %+v", wrong, l)
		}
	}
	var _ []node.Limit = l
}

func TestSharesAreReadAndPrinted(t *testing.T) {
	var l node.Shares
	if err := l.UnmarshalText([]byte(" b=1,acme=4\n")); err != nil || !reflect.DeepEqual(l, node.Shares{"acme": 4, "b": 1}) || l.String() != "acme=4, b=1" {
		t.Errorf("%v, %v", l, err)
	}
	if err := l.UnmarshalText(nil); err != nil || l != nil || l.String() != "" {
		t.Errorf("none: %v, %v", l, err)
	}
	for _, wrong := range []string{"a", "a=", "a=much", "a=1.5", "a=1, a=2"} {
		if err := l.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %v", wrong, l)
		}
	}
}

func TestCircuitsAreReadAndPrinted(t *testing.T) {
	var l node.Circuits
	text := "https://old.example.com/ off; https://api.example.com/ namespace=acme share=0.8 deliveries=20; * window=1m0s open=5s"
	if err := l.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := node.Circuits{{Target: "https://old.example.com/", Off: true}, {Target: "https://api.example.com/", Namespace: "acme", Share: 0.8, Deliveries: 20},
		{Target: "*", Window: time.Minute, Open: 5 * time.Second}}
	if !reflect.DeepEqual(l, want) || l.String() != text {
		t.Errorf("%+v, %q", l, l)
	}
	for _, wrong := range []string{"* on", "* off=true", "* share=half", "* deliveries=1.5", "* window=30", "* open=soon", "* failures=3"} {
		if err := l.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %+v", wrong, l)
		}
	}
}

func TestByteSizes(t *testing.T) {
	for text, want := range map[string]node.Bytes{
		"0": 0, "1048576": 1 << 20, "64MiB": 64 << 20, "64mib": 64 << 20, "1 GiB": 1 << 30, "500KB": 500_000, "2TB": 2e12, "7B": 7, "8191PiB": -1,
		"": -1, "MiB": -1, "-1": -1, "1.5GiB": -1, "9999999999999999999": -1, "9999999TiB": -1, "64 M": -1, "0x10": -1,
	} {
		b := node.Bytes(-1)
		err := b.UnmarshalText([]byte(text))
		if b != want || (err == nil) != (want >= 0) {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	for b, want := range map[node.Bytes]string{0: "0", 1: "1", 1 << 20: "1MiB", 1536 << 10: "1536KiB", 1e9: "1000000000", 3 << 30: "3GiB"} {
		if got := b.String(); got != want {
			t.Errorf("%d prints as %s, want %s", b, got, want)
		}
	}
}
