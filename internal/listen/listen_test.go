package listen

import (
	"strings"
	"testing"
)

// TestAddresses: an address that other machines can reach needs TLS and authentication, or the name of its
// listener.
func TestAddresses(t *testing.T) {
	for address, local := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:0": true, "LOCALHOST:1": true, "127.8.9.1:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "10.0.0.5:1": false, "[::]:1": false, "localhost.example:1": false, "host:1": false} {
		if OnLoopback(address) != local {
			t.Errorf("%s is on loopback: %v", address, !local)
		}
		for _, c := range []struct {
			rule Rule
			ok   bool
			want string
		}{
			{Rule{}, local, "neither has TLS nor"},
			{Rule{TLS: true}, local, "does not authenticate"},
			{Rule{Access: true}, local, "has no TLS"},
			{Rule{Insecure: Insecure{"admin", "dapr"}}, local, "insecure=api"},
			{Rule{TLS: true, Access: true}, true, ""},
			{Rule{Insecure: Insecure{"api"}}, true, ""},
			{Rule{Insecure: Insecure{"all"}}, true, ""},
		} {
			err := c.rule.Check("api", "listen", address, "127.0.0.1:7411")
			if (err == nil) != c.ok || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "listen: ")) {
				t.Errorf("%s with %+v: %v", address, c.rule, err)
			}
		}
	}
	for _, address := range []string{"", "127.0.0.1", "1.2.3.4:5:6"} {
		if (Rule{Insecure: Insecure{"all"}}).Check("api", "listen", address, "127.0.0.1:7411") == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

// TestInsecureIsWrittenAndRead: what a setting has is what it prints.
func TestInsecureIsWrittenAndRead(t *testing.T) {
	for text, want := range map[string]string{"": "false", "false": "false", "true": "true", "all": "true", "api": "api", "api,admin": "api, admin", " dapr\nnodes ": "dapr, nodes"} {
		var i Insecure
		if err := i.UnmarshalText([]byte(text)); err != nil || i.String() != want {
			t.Errorf("%q: %q, %v", text, i, err)
		}
	}
	for _, text := range []string{"1", "yes", "api admin http", "API", "true, api"} {
		if new(Insecure).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzInsecure(f *testing.F) {
	f.Add("api, admin")
	f.Fuzz(func(t *testing.T, text string) {
		var i, again Insecure
		if i.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(i.String())); err != nil || again.String() != i.String() {
			t.Errorf("%q: %q, %v", text, again, err)
		}
	})
}
