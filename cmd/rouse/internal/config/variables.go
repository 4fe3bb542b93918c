package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// notOurs are variables that resemble those of rouse: Kubernetes sets them for a service named rouse, or
// the tests of this project use them.
var notOurs = regexp.MustCompile(`^ROUSE_(([A-Z0-9_]+_)?SERVICE_(HOST|PORT.*)|PORT|PORT_.*|SERVERS|BINARY)$`)

// CheckVariables refuses a misspelt variable of rouse, which would be ignored otherwise. Other variables
// that begin with ROUSE_ are allowed.
func CheckVariables(environ []string) error {
	known := []string{"ROUSE_SERVER", "ROUSE_NAMESPACE", "ROUSE_CONFIG", "ROUSE_CA", "ROUSE_CLIENT_CERT",
		"ROUSE_CLIENT_KEY", "ROUSE_KEY", "ROUSE_KEY_FILE", "ROUSE_PROFILE"}
	for _, s := range new(Config).ConfigSettings() {
		known = append(known, EnvName(s.Name))
	}
	var problems []rouse.Problem
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "ROUSE_") || slices.Contains(known, name) || notOurs.MatchString(name) {
			continue
		}
		for _, meant := range known {
			if differByTypo(strings.TrimPrefix(name, "ROUSE_"), strings.TrimPrefix(meant, "ROUSE_")) {
				problems = append(problems, rouse.Problem{Field: name, Wrong: "is no variable of rouse",
					Cure: fmt.Sprintf("write %s, or unset it", meant)})
				break
			}
		}
	}
	if len(problems) > 0 {
		return &rouse.Invalid{Problems: problems}
	}
	return nil
}

// differByTypo reports whether two names differ by a typo: one letter in short names, two in longer ones.
func differByTypo(a, b string) bool {
	if len(b) <= 5 {
		return cli.EditDistance(a, b) <= 1
	}
	return cli.EditDistance(a, b) <= 2
}
