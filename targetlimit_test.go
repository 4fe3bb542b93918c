package rouse

import (
	"errors"
	"strings"
	"testing"
)

// TestNamesOfLimitsOfTargets: each is a name that a limit may have, and that finds the target again.
func TestNamesOfLimitsOfTargets(t *testing.T) {
	for target, want := range map[string]string{
		"https://api.example.com":                 "target:api.example.com",
		"https://API.example.com:443/a/b?c#d":     "target:api.example.com",
		"http://api.example.com:80/a:b":           "target:api.example.com",
		"http://api.example.com:8080?x=y":         "target:api.example.com:8080",
		"https://[2001:db8::1]:8443/":             "target:[2001:db8::1]:8443",
		"http://127.0.0.1:7413/":                  "target:127.0.0.1:7413",
		"stream:mail":                             "target:stream:mail",
		"amqp:orders/events/a.b?mode=structured":  "target:amqp:orders/events/a.b",
		"redis:orders/Orders-due":                 "target:redis:orders/Orders-due",
		"func:Clean":                              "target:func:Clean",
		"nats:orders/" + strings.Repeat("x", 200): "target:nats:orders/" + strings.Repeat("x", 200),
	} {
		if got := TargetLimit(target); got != want || CheckLimitName("name", got) != nil || !IsTargetLimit(got) {
			t.Errorf("%s: %s, %v", target, got, CheckLimitName("name", got))
		}
	}
}

func TestLimitsOfTargetsThatAreRefused(t *testing.T) {
	for name, cure := range map[string]string{
		"target:":                              "use target: and a host",
		"target:a b":                           "use target: and a host",
		"target:amqp:orders/a?mode=structured": "without its options",
		"target:é.example.com":                 "use target: and a host",
		"target:" + strings.Repeat("x", 250):   "use target: and a host",
		"target:https://api.example.com/path":  "use target:api.example.com",
		"target:api.example.com/path":          "use target:api.example.com",
		"target:API.example.com":               "use target:api.example.com",
		"target:api.example.com:443":           "leave the port out",
		"target:api.example.com:80":            "leave the port out",
		"target:pool:workers":                  "a pool bounds its workers",
		"Target:api.example.com":               "or target: and a target",
	} {
		inv, ok := errors.AsType[*Invalid](CheckLimitName("name", name))
		if !ok || inv.Problems[0].Field != "name" || !strings.Contains(inv.Problems[0].Cure, cure) {
			t.Errorf("%s: %v", name, inv)
		}
	}
	for field, l := range map[string]Limit{"per_key": {PerKey: true}, "order": {Order: OrderByDue}} {
		l.Namespace, l.Name, l.Concurrency = "n", "target:api.example.com", 1
		inv, ok := errors.AsType[*Invalid](l.Check())
		if !ok || len(inv.Problems) != 1 || inv.Problems[0].Field != field || inv.Problems[0].Cure == "" {
			t.Errorf("%s: %v", field, inv)
		}
	}
	s := Spec{Schedule: "@after 1s", Target: "https://api.example.com", Limit: "target:api.example.com"}
	inv, ok := errors.AsType[*Invalid](s.Check())
	if !ok || len(inv.Problems) != 1 || inv.Problems[0].Field != "limit" || inv.Problems[0].Cure != "leave it out" {
		t.Errorf("a spec: %v", inv)
	}
}
