package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/node"
)

// fileEntry is a key of the configuration file.
type fileEntry struct {
	text string // of the value
	line int
}

// readFile reads the keys of a YAML file: one flat mapping of settings. Unknown or duplicate keys and
// values of the wrong type are problems with their line, even if a higher layer overrides them.
func readFile(name string, body []byte) (map[string]fileEntry, []rouse.Problem) {
	at := func(line int, key, value, wrong, cure string) rouse.Problem {
		return rouse.Problem{Field: fmt.Sprintf("%s:%d: %s", name, line, key), Value: value, Wrong: wrong, Cure: cure}
	}
	file, err := parser.ParseBytes(body, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, what := 1, err.Error()
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
			line, what = syntax.Token.Position.Line, syntax.Message
		}
		return nil, []rouse.Problem{at(line, "yaml", "", "is malformed: "+what,
			`write a line "name: value" for each setting, values with a colon at their end or a # in quotes`)}
	}
	pairs, fault := pairsOf(file)
	if fault != nil {
		return nil, []rouse.Problem{at(fault.GetToken().Position.Line, "yaml", "", "is no list of settings",
			`write a line "name: value" for each`)}
	}
	settings := new(Config).ConfigSettings() // for trying out values
	entries := map[string]fileEntry{}
	var problems []rouse.Problem
	for _, p := range pairs {
		key, line := p.Key.GetToken().Value, p.Key.GetToken().Position.Line
		s := FindSetting(settings, key)
		before, double := entries[key]
		switch {
		case s == nil:
			problems = append(problems, at(line, key, "", "is no setting", cli.SuggestName(key, settingNames(settings))))
		case double:
			problems = append(problems, at(line, key, "", fmt.Sprintf("is given twice, first in line %d", before.line),
				"give it once"))
		default:
			text, fits := readScalar(s, p.Value)
			if fits {
				fits = s.Parse(text) == nil
			}
			entries[key] = fileEntry{text, line}
			switch {
			case p.Value.Type() == ast.NullType:
				problems = append(problems, at(line, key, "", "has no value", "give "+s.Kind()))
			case !fits:
				shown := ""
				if _, scalar := p.Value.(ast.ScalarNode); scalar { // a value in a list or a mapping may be a password
					shown = rouse.Shorten(cli.RedactPasswords(text), 128)
				}
				problems = append(problems, at(line, key, shown, "is not "+s.Kind(), "give "+s.Kind()))
			}
		}
	}
	return entries, problems
}

// pairsOf returns the keys and values of the one mapping of a file, or the node that is not a mapping.
func pairsOf(file *ast.File) (pairs []*ast.MappingValueNode, fault ast.Node) {
	for i, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil:
		case *ast.CommentGroupNode, *ast.NullNode:
		case *ast.MappingNode:
			pairs = append(pairs, body.Values...)
		case *ast.MappingValueNode:
			pairs = append(pairs, body)
		default:
			return nil, body
		}
		if i > 0 && doc.Body != nil {
			return nil, doc.Body
		}
	}
	return pairs, nil
}

// readScalar reads a value, and reports whether it is a plain one of the setting's type: no mapping, no list,
// no anchor.
func readScalar(s *setting.Setting, value ast.Node) (text string, fits bool) {
	kind := s.Value()
	switch v := value.(type) {
	case *ast.StringNode:
		switch kind.(type) {
		case string, time.Duration, node.Bytes, node.Limits, node.Circuits, node.Shares, node.Names, listen.Insecure:
			fits = true
		}
		return v.Value, fits
	case *ast.LiteralNode:
		switch kind.(type) {
		case string, node.Limits, node.Circuits, node.Shares, node.Names:
			fits = true
		}
		return strings.TrimRight(v.Value.Value, "\n"), fits
	case *ast.IntegerNode:
		switch kind.(type) {
		case int, int64, float64, node.Bytes:
			fits = true
		}
		return v.GetToken().Value, fits
	case *ast.FloatNode:
		_, fits = kind.(float64)
		return v.GetToken().Value, fits
	case *ast.BoolNode:
		switch kind.(type) {
		case bool, listen.Insecure:
			fits = true
		}
		return v.GetToken().Value, fits
	}
	return strings.TrimSpace(value.String()), false
}

func FindSetting(settings []setting.Setting, name string) *setting.Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}

func settingNames(settings []setting.Setting) []string {
	list := make([]string, len(settings))
	for i, s := range settings {
		list[i] = s.Name
	}
	return list
}
