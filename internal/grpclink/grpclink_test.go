package grpclink

import "testing"

// TestURL: an address has a URL for browsers, unless it is a target of gRPC's own.
func TestURL(t *testing.T) {
	for target, want := range map[string]string{
		"localhost":              "http://localhost:7411",
		"127.0.0.1:80":           "http://127.0.0.1:80",
		"[::1]:7411":             "http://[::1]:7411",
		"rouse.example":          "https://rouse.example:7411",
		"http://rouse.example":   "http://rouse.example:80",
		"https://rouse.example/": "https://rouse.example:443",
		"dns:443":                "",
		"https://dns":            "https://dns:443", // a host with the name of a scheme
		"dns:///rouse.example":   "https://rouse.example",
		"unix:/run/rouse.sock":   "",
	} {
		a, err := Options{}.Parse(target)
		if got := a.URL(); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", target, got, err, want)
		}
	}
}
