package listen

import "testing"

// TestAddresses: an address that other machines can reach has to be allowed, and one that is none is refused.
func TestAddresses(t *testing.T) {
	for address, local := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:0": true, "LOCALHOST:1": true, "127.8.9.1:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "10.0.0.5:1": false, "[::]:1": false, "localhost.example:1": false, "host:1": false} {
		if OnLoopback(address) != local {
			t.Errorf("%s is on loopback: %v", address, !local)
		}
		if err := Check("listen", address, "127.0.0.1:7411", false); (err == nil) != local {
			t.Errorf("%s: %v", address, err)
		}
		if err := Check("listen", address, "127.0.0.1:7411", true); err != nil {
			t.Errorf("%s is allowed, and refused: %v", address, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "1.2.3.4:5:6"} {
		if Check("listen", address, "127.0.0.1:7411", true) == nil {
			t.Errorf("%q is taken", address)
		}
	}
}
