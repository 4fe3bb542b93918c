package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestVariablesThatAreMisspelt(t *testing.T) {
	for entry, meant := range map[string]string{
		"ROUSE_LITSEN=:7411":                "ROUSE_LISTEN",
		"ROUSE_STOR=mem:":                   "ROUSE_STORE",
		"ROUSE_SERVRE=x":                    "ROUSE_SERVER",
		"ROUSE_LOGLEVEL=debug":              "ROUSE_LOG_LEVEL",
		"ROUSE_LISTEN=:7411":                "",
		"ROUSE_CONFIG=":                     "",
		"ROUSE_PORT=tcp://10.0.0.1:7411":    "", // of Kubernetes
		"ROUSE_PORT_7411_TCP_ADDR=10.0.0.1": "",
		"ROUSE_SERVICE_HOST=10.0.0.1":       "",
		"ROUSE_API_SERVICE_PORT_HTTP=80":    "",
		"ROUSE_FAILPOINT=x":                 "",
		"LITSEN=x":                          "",
		"MY_ROUSE_LITSEN=x":                 "",
	} {
		err := checkVariables([]string{"HOME=/", entry})
		if (err != nil) != (meant != "") || err != nil && !strings.Contains(err.Error(), "write "+meant+",") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

func TestArgumentsAsOtherProgramsHaveThem(t *testing.T) {
	for given, want := range map[string]string{
		"--version": "version", "--json --version": "--json version", "help": "--help", "help dead list": "dead list --help",
		"get help": "get help", "create a --version": "create a --version", "-- --version": "-- --version",
	} {
		if got := normalizeArguments(strings.Fields(given)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s is %q", given, got)
		}
	}
}

func TestBodiesOnATerminal(t *testing.T) {
	const body = "a\tb\n\x1b[2Jc\u200bd\u202ee\xff\n"
	for want, a := range map[string]*app{
		"a\tb\n\\x1b[2Jc\\u200bd\\u202ee\\ufffd\n": {outTTY: true},
		body: {outTTY: true, raw: true},
	} {
		var out bytes.Buffer
		a.out = &out
		if err := a.printBytes([]byte(body)); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
}
