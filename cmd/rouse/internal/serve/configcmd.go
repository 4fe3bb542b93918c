package serve

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/node"
)

// ConfigCmd prints the configuration that serve would use.
type ConfigCmd struct {
	config.Flags
}

func (ConfigCmd) Help() string {
	return `The output is a file that serve reads with --config. Passwords in URLs are not shown.

Examples:

    rouse config
    ROUSE_GRACE=30s rouse config --listen 127.0.0.1:9000
    rouse config --config /etc/rouse.yaml --json`
}

// Run prints the effective configuration.
func (c *ConfigCmd) Run(a *cli.App) error {
	in, err := c.LoadConfig(a.Given)
	if err != nil {
		return err
	}
	type shown struct {
		Value  any    `json:"value"`
		Source string `json:"source"`
	}
	all := map[string]shown{}
	for _, s := range in.ConfigSettings() {
		v, source := shownValue(in, s)
		all[s.Name] = shown{v, source}
	}
	return a.ShowValue(all, func() error {
		file := in.File
		file = cmp.Or(file, "none")
		fmt.Fprintln(a.Out, a.Style.Faint("# the configuration in force; file: "+cli.CleanText(file)))
		width := 0
		for _, s := range in.ConfigSettings() {
			width = max(width, len(s.Name)+2+len(yamlOf(all[s.Name].Value)))
		}
		for _, s := range in.ConfigSettings() {
			line := s.Name + ": " + yamlOf(all[s.Name].Value)
			fmt.Fprintln(a.Out, line+strings.Repeat(" ", width-len(line))+
				a.Style.Faint("  # "+cli.CleanText(all[s.Name].Source)))
		}
		return nil
	})
}

// shownValue returns a setting's value, redacted, and its source, with the default that an unset one has.
func shownValue(c *config.Loaded, s setting.Setting) (value any, source string) {
	source = c.Source[s.Name]
	switch s.Name {
	case "store":
		if c.Store == "" {
			source += ": pebble in the data directory"
		}
	case "heartbeat":
		return cli.RedactPath(c.Heartbeat), source
	case "webhook-secret-file":
		if c.SecretFile == "" {
			source += ": " + c.SecretPath()
		}
	}
	switch v := s.Value().(type) {
	case time.Duration, node.Bytes, node.Limits, node.Circuits, node.Shares, node.Names:
		return s.Text(), source
	case string:
		return cli.RedactPasswords(v), source
	default:
		return v, source
	}
}

// yamlOf formats a value of a setting; a JSON string is a YAML string, too.
func yamlOf(v any) string {
	if s, ok := v.(string); ok {
		if len(s) > 0 && s[0] >= '0' && s[0] <= '9' && !strings.ContainsAny(s, ":# ") {
			return s // a duration or a size
		}
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}
