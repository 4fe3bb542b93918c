// Package principals lets callers of a node be known by client certificates and by signed tokens of issuers
// (JWT: OpenID Connect, service accounts of Kubernetes), in addition to API keys. A program that serves them
// imports it, and sets Config.Principals:
//
//	import _ "github.com/rousehq/rouse/node/principals"
package principals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access/rules"
	"github.com/rousehq/rouse/internal/access/token"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/node"
)

// checkPrincipals refuses a file that means nothing, or something that cannot happen.
func checkPrincipals(c *node.Config) error {
	if c.Principals == "" {
		return nil
	}
	refuse := func(wrong, cure string) error { return rouse.Refuse("principals", c.Principals, wrong, cure) }
	cfg, err := readRulesFile(c.Principals)
	if err != nil {
		return refuse(err.Error(), "give a YAML file with certificates, issuers, or both")
	}
	var bad rouse.Invalid
	bad.Add(cfg.Check())
	for i := range bad.Problems {
		bad.Problems[i].Field = c.Principals + ": " + bad.Problems[i].Field
	}
	switch {
	case cfg.Empty():
		bad.Add(refuse("has no rules", "give certificates, issuers, or both"))
	case len(cfg.Certificates) > 0 && c.TLSClientCA == "":
		bad.Add(refuse("has rules for certificates, and no certificate is verified", "set tls-client-ca"))
	}
	return bad.Err()
}

// maxFile bounds the file.
const maxFile = 1 << 20

// readRulesFile reads the rules of a file. Unknown fields are errors.
func readRulesFile(name string) (c rules.Config, err error) {
	f, err := os.Open(name)
	if err != nil {
		return c, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return c, fmt.Errorf("cannot be read: %w", err)
	case len(text) > maxFile:
		return c, fmt.Errorf("has more than %d bytes", maxFile)
	}
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil && !errors.Is(err, io.EOF) {
		return c, errors.New("is malformed: " + yaml.FormatError(err, false, false))
	}
	return c, nil
}

// openPrincipalsPart adds the authenticators of the file to access control.
func openPrincipalsPart(_ context.Context, n core) (parts.Part, error) {
	file := n.Config().Principals
	if file == "" {
		return parts.Part{}, nil
	}
	cfg, err := readRulesFile(file)
	if err != nil {
		return parts.Part{}, fmt.Errorf("principals: %s %w", file, err)
	}
	gate := n.Access()
	var p parts.Part
	if len(cfg.Issuers) > 0 {
		tokens, err := token.New(cfg.Issuers, n.Config().Log)
		if err != nil {
			return p, fmt.Errorf("principals: %s: %w", file, err)
		}
		gate.Authenticators = append(gate.Authenticators, tokens)
		gate.Providers = tokens.Providers()
		p.Work = func(ctx context.Context) error { tokens.Run(ctx); return nil }
	}
	if len(cfg.Certificates) > 0 {
		gate.Authenticators = append(gate.Authenticators, rules.NewCertificates(cfg.Certificates))
	}
	return p, nil
}
