package config

import (
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
		err := CheckVariables([]string{"HOME=/", entry})
		if (err != nil) != (meant != "") || err != nil && !strings.Contains(err.Error(), "write "+meant+",") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
