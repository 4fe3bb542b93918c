package main

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/node"
)

// configCmd prints the configuration that serve would use.
type configCmd struct {
	configFlags
}

func (configCmd) Help() string {
	return `The output is a file that serve reads with --config. Passwords in URLs are not shown.

Examples:

    rouse config
    ROUSE_GRACE=30s rouse config --listen 127.0.0.1:9000
    rouse config --config /etc/rouse.yaml --json`
}

// Run prints the effective configuration.
func (c *configCmd) Run(a *app) error {
	in, err := c.load(a.given)
	if err != nil {
		return err
	}
	type shown struct {
		Value  any    `json:"value"`
		Source string `json:"source"`
	}
	all := map[string]shown{}
	for _, s := range in.settings() {
		v, source := in.shown(s)
		all[s.Name] = shown{v, source}
	}
	return a.show(all, func() error {
		file := in.file
		file = cmp.Or(file, "none")
		fmt.Fprintln(a.out, a.style.faint("# the configuration in force; file: "+clean(file)))
		width := 0
		for _, s := range in.settings() {
			width = max(width, len(s.Name)+2+len(yamlOf(all[s.Name].Value)))
		}
		for _, s := range in.settings() {
			line := s.Name + ": " + yamlOf(all[s.Name].Value)
			fmt.Fprintln(a.out, line+strings.Repeat(" ", width-len(line))+a.style.faint("  # "+clean(all[s.Name].Source)))
		}
		return nil
	})
}

// shown returns a setting's value, redacted and with what an unset one amounts to, and its source.
func (c *inForce) shown(s setting.Setting) (value any, source string) {
	source = c.source[s.Name]
	switch s.Name {
	case "store":
		if c.Store == "" {
			source += ": pebble in the data directory"
		}
		return redact(c.Store), source
	case "store-direct", "index", "queue":
		return redact(s.Text()), source
	case "webhook-secret-file":
		if c.SecretFile == "" {
			source += ": " + c.secretFile()
		}
	}
	switch v := s.Value().(type) {
	case time.Duration, node.Bytes, node.Limits, node.Shares, node.Names:
		return s.Text(), source
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

const hidden = "xxxxx"

// redact removes the passwords of a URL, in the user part and the query.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil { // not a URL: anything up to the last @ may be a secret
		if i := strings.LastIndexByte(raw, '@'); i >= 0 {
			return hidden + raw[i:]
		}
		return raw
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	q := u.Query()
	secret := false
	for k := range q {
		if l := strings.ToLower(k); strings.Contains(l, "pass") || strings.Contains(l, "secret") || strings.Contains(l, "token") {
			q.Set(k, hidden)
			secret = true
		}
	}
	if secret {
		u.RawQuery = q.Encode()
	}
	return u.String()
}
