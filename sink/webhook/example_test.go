package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse/sink/webhook"
)

// A receiver verifies the signature before it trusts a request, and uses the fire id to detect duplicates.
func ExampleVerify() {
	secret := webhook.NewSecret() // as the file of the server has it for the namespace
	receiver := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			err = webhook.Verify([]string{secret}, r.Header, body, time.Now())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Printf("%s: %s\n", r.Header.Get(webhook.HeaderID), body)
	}

	// What rouse sends, and the same request with another body.
	at := time.Now().Unix()
	signature, err := webhook.Sign(secret, "fire-17", at, []byte("17 crowns"))
	if err != nil {
		fmt.Println(err)
	}
	for _, body := range []string{"17 crowns", "1 crown"} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set(webhook.HeaderID, "fire-17")
		r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(at, 10))
		r.Header.Set(webhook.HeaderSignature, signature)
		w := httptest.NewRecorder()
		receiver(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// fire-17: 17 crowns
	// 200
	// 401
}
