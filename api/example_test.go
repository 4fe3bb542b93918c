package api_test

import (
	"fmt"

	"github.com/rousehq/rouse/api"
)

// Decode is strict: an unknown member is an error, and a typing error in a policy cannot go unnoticed.
func ExampleDecode() {
	var create api.CreateTimer
	fmt.Println(api.Decode([]byte(`{"schedule": "@after 90s", "target": "stream:mail", "payload": {"order": 17}}`), &create))
	fmt.Println(create.Schedule, create.Target, create.Payload)
	fmt.Println(api.Decode([]byte(`{"schedule": "@after 90s", "target": "stream:mail", "misfires": "skip"}`), &create))
	// Output:
	// <nil>
	// @after 90s stream:mail {"order": 17}
	// misfires: is unknown; leave it out, or see /openapi.yaml for what there is
}
