// Encrypt creates a timer whose payload the server cannot read, and opens it when the timer fires.
// PAYLOAD_KEY has the key: 32 bytes in hexadecimal, as of "openssl rand -hex 32".
package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log"
	"os"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
)

func main() {
	key, err := hex.DecodeString(os.Getenv("PAYLOAD_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	codec, err := NewCodec(1, map[byte][]byte{1: key})
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Dial(cmp.Or(os.Getenv("ROUSE_SERVER"), "127.0.0.1:7411"), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, done := context.WithCancel(context.Background())
	defer done()
	if _, err := c.Create(ctx, "default", "secret", rouse.Spec{Schedule: "@after 1s", Target: "stream:sealed",
		Payload: codec.Seal("default", "secret", []byte("a secret")), ContentType: ContentType}); err != nil {
		log.Fatal(err)
	}
	err = c.Subscribe(ctx, client.SubscribeOptions{Channel: "sealed"}, func(_ context.Context, f client.Fire) error {
		payload, err := codec.Open(f.Namespace, f.Name, f.Payload)
		if err != nil {
			return client.Permanent(err) // another attempt would not fix it
		}
		fmt.Printf("%s: %s\n", f.Name, payload)
		done()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
