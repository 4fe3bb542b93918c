package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
)

// poolPlaces is a parsed pools file with the lines of its settings.
type poolPlaces struct {
	name  string
	pools []*ast.MappingNode
	err   error // of a setting of no pool
}

// readPlaces finds the lines of settings. Of invalid YAML it finds none: that is refused by the decoder.
func readPlaces(name string, body []byte) *poolPlaces {
	p := &poolPlaces{name: name}
	file, err := parser.ParseBytes(body, 0)
	if err != nil || len(file.Docs) == 0 {
		return p
	}
	root, ok := asMapping(file.Docs[0].Body)
	if !ok {
		return p
	}
	of := reflect.TypeFor[PoolsFile]()
	for _, v := range root.Values {
		setting := v.Key.GetToken().Value
		for j := range of.NumField() {
			if f := of.Field(j); f.Tag.Get("yaml") == setting && p.err == nil {
				p.err = p.strictValue(v.Value, fmt.Sprintf("%s:%d: %s", name, v.Key.GetToken().Position.Line, setting),
					f.Type, false)
			}
		}
	}
	list, ok := resolveAnchor(memberValue(root, "pools")).(*ast.SequenceNode)
	if !ok {
		return p
	}
	for i, v := range list.Values {
		v = resolveAnchor(v)
		m, ok := asMapping(v)
		p.pools = append(p.pools, m)
		if !ok && !isEmptyNode(v) && v.Type() != ast.AliasType && p.err == nil {
			p.err = rouse.Refuse(fmt.Sprintf("%s:%d: pool %d", name, v.GetToken().Position.Line, i+1), textOfNode(v),
				"has no settings", "write name: and a driver")
		}
	}
	return p
}

// resolveAnchor returns the value of an anchor, or the node.
func resolveAnchor(n ast.Node) ast.Node {
	if a, ok := n.(*ast.AnchorNode); ok {
		return a.Value
	}
	return n
}

// isEmptyNode reports whether a setting has no value.
func isEmptyNode(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return null
}

// textOfNode returns the text of a value if it is one; lists and mappings are not shown.
func textOfNode(n ast.Node) string {
	if _, ok := n.(ast.ScalarNode); ok {
		return n.GetToken().Value
	}
	return ""
}

// asMapping returns a node as a mapping. A mapping with a single member has a type of its own.
func asMapping(n ast.Node) (*ast.MappingNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m, true
	case *ast.MappingValueNode:
		return &ast.MappingNode{Start: m.Start, Values: []*ast.MappingValueNode{m}}, true
	}
	return nil, false
}

// memberValue returns the value of a member of a mapping, nil if there is none.
func memberValue(n ast.Node, name string) ast.Node {
	m, ok := asMapping(n)
	if !ok || m == nil {
		return nil
	}
	for _, v := range m.Values {
		if v.Key.GetToken().Value == name {
			return v.Value
		}
	}
	return nil
}

// settingLine returns the line of a pool's setting, of its driver, or of the pool.
func (p *poolPlaces) settingLine(i int, field string) int {
	if i >= len(p.pools) || p.pools[i] == nil {
		return 1
	}
	var at ast.Node = p.pools[i]
	if d, ok := asMapping(memberValue(at, "driver")); ok && d != nil && len(d.Values) > 0 &&
		memberValue(at, firstOf(field)) == nil {
		at = d.Values[0].Value
		if memberValue(at, firstOf(field)) == nil {
			at = p.pools[i] // it is missing
		}
	}
	for part := range strings.SplitSeq(field, ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		next := memberValue(at, name)
		if list, ok := resolveAnchor(next).(*ast.SequenceNode); ok && indexed {
			if k, err := strconv.Atoi(index); err == nil && k < len(list.Values) {
				next = resolveAnchor(list.Values[k])
			}
		}
		if next == nil {
			break
		}
		at = next
	}
	if m, ok := asMapping(at); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken().Position.Line
	}
	return at.GetToken().Position.Line
}

func firstOf(field string) string {
	first, _, _ := strings.Cut(field, ".")
	return first
}

// checkPoolValues refuses values of another kind than their settings, and numbers and durations that decoding
// would change: a fraction instead of a whole number, and a zero, which would mean the default.
func (p *poolPlaces) checkPoolValues() error {
	if p.err != nil {
		return p.err
	}
	for i, pool := range p.pools {
		if pool == nil {
			continue
		}
		if err := p.checkMapping(i, pool, reflect.TypeFor[poolEntry](), true); err != nil {
			return err
		}
	}
	return nil
}

// zeroAllowed are the settings with zero as a valid value.
var zeroAllowed = map[string]bool{"prewarm": true}

func (p *poolPlaces) checkMapping(i int, m *ast.MappingNode, t reflect.Type, zero bool) error {
	for _, v := range m.Values {
		name := v.Key.GetToken().Value
		for j := range t.NumField() {
			f := t.Field(j)
			if f.Tag.Get("yaml") != name {
				continue
			}
			if err := p.strictValue(v.Value, name, f.Type, zero); err != nil {
				return p.locateProblems(i, v.Value.GetToken().Position.Line, err)
			}
			inner := pointedType(f.Type)
			if list, ok := resolveAnchor(v.Value).(*ast.SequenceNode); ok && f.Type == reflect.TypeFor[[]windowEntry]() {
				for _, one := range list.Values {
					if sub, ok := asMapping(resolveAnchor(one)); ok {
						if err := p.checkMapping(i, sub, reflect.TypeFor[windowEntry](), false); err != nil {
							return err
						}
					}
				}
			}
			if sub, ok := asMapping(v.Value); ok && inner.Kind() == reflect.Struct {
				if err := p.checkMapping(i, sub, inner, inner == reflect.TypeFor[subprocess.Config]()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pointedType returns the element type of a pointer, or the type.
func pointedType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (p *poolPlaces) strictValue(n ast.Node, name string, t reflect.Type, zero bool) error {
	n = resolveAnchor(n)
	text := textOfNode(n)
	_, list := n.(*ast.SequenceNode)
	_, settings := asMapping(n)
	aliased := n.Type() == ast.AliasType || n.Type() == ast.TagType // the decoder resolves it
	switch inner := pointedType(t); {
	case aliased || isEmptyNode(n):
	case inner.Kind() == reflect.Slice && !list:
		if inner.Elem().Kind() == reflect.Struct {
			return rouse.Refuse(name, text, "is no list", "begin each of its entries with -")
		}
		return rouse.Refuse(name, text, "is no list", `write one such as ["a", "b"]`)
	case (inner.Kind() == reflect.Struct || inner.Kind() == reflect.Map) && !settings:
		return rouse.Refuse(name, text, "has no settings", "write them below it, each on a line of its own")
	case inner.Kind() == reflect.Bool && n.Type() != ast.BoolType:
		return rouse.Refuse(name, text, "is neither true nor false", "write one of them")
	case inner.Kind() == reflect.String && (list || settings):
		return rouse.Refuse(name, "", "is no text", "write one value, in quotes if it has special characters")
	case t == reflect.TypeFor[time.Duration]():
		d, err := rouse.ParseDuration(text)
		if err != nil {
			return rouse.Under(name, err)
		}
		if d == 0 && zero && !zeroAllowed[name] {
			return rouse.Refuse(name, text, "is no duration for it",
				"leave it out, which means the default, or give at least 1ms")
		}
	case t.Kind() == reflect.Int:
		if _, whole := n.(*ast.IntegerNode); !whole {
			return rouse.Refuse(name, text, "is no whole number", "write one such as 3")
		}
		if zero && strings.Trim(text, "0") == "" {
			return rouse.Refuse(name, text, "is out of range", "leave it out, which means the default, or give at least 1")
		}
	}
	return nil
}

// locateProblems adds the line and the pool to an error; the line is that of its field if it is 0.
func (p *poolPlaces) locateProblems(i, line int, err error) error {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	var there rouse.Invalid
	for _, one := range inv.Problems {
		at := line
		if at == 0 {
			at = p.settingLine(i, one.Field)
		}
		one.Field = fmt.Sprintf("%s:%d: pool %d%s: %s", p.name, at, i+1, p.poolLabel(i), one.Field)
		there.Problems = append(there.Problems, one)
	}
	return &there
}

// poolLabel returns the name of a pool in brackets, if it has one.
func (p *poolPlaces) poolLabel(i int) string {
	if i < len(p.pools) && p.pools[i] != nil {
		if n := memberValue(p.pools[i], "name"); n != nil {
			return " (" + rouse.Shorten(n.GetToken().Value, 64) + ")"
		}
	}
	return ""
}
