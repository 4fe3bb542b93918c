package rouse

import "testing"

func TestTraceparent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c := ParseTraceparent(good)
	if c == nil || !c.Sampled() || c.String() != good {
		t.Fatalf("%q was read as %v", good, c)
	}
	if c := ParseTraceparent("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more"); c == nil || c.Sampled() {
		t.Errorf("a later version was read as %v", c)
	}
	for _, bad := range []string{"", "00", good + "-x", good[:54], "ff" + good[2:], "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e473--00f067aa0ba902b7-01"} {
		if c := ParseTraceparent(bad); c != nil {
			t.Errorf("%q was read as %v", bad, c)
		}
	}
}

// TestATraceIsAPartOfItsOwn: a timer without a trace has the body that it had before there was one, and
// another one takes 25 bytes more.
func TestATraceIsAPartOfItsOwn(t *testing.T) {
	tm := oneShot(t0)
	before := tm.Row()
	tm.Trace = ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	after := tm.Row()
	if parts := before.Body[len(before.Body)-1]; parts != 0 || len(after.Body) != len(before.Body)+25+1 {
		t.Errorf("parts %d; %d and %d bytes", parts, len(before.Body), len(after.Body))
	}
	got, err := DecodeTimer(&after)
	if err != nil || *got.Trace != *tm.Trace {
		t.Errorf("got %v, %v", got.Trace, err)
	}
	occ, _ := got.Current()
	if f := got.Fire(occ); f.Origin == nil || *f.Origin != *tm.Trace || f.Traceparent != "" {
		t.Errorf("the fire has %v", f)
	}
}

// FuzzTraceparent: what is taken is written as it was read, except for flags of later versions.
func FuzzTraceparent(f *testing.F) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, text := range []string{good, "01" + good[2:] + "-more", good[:54], "ff" + good[2:], ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c := ParseTraceparent(text); c != nil && c.String()[2:53] != text[2:53] {
			t.Errorf("%q was read as %v", text, c)
		}
	})
}
