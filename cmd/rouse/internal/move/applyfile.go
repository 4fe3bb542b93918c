package move

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/foreign"
)

// Bounds on the input of apply.
const (
	maxDeclared         = 64 << 20 // bytes of all files: a set is in memory while it is compared
	maxDeclaredDocument = 4 << 20  // bytes of one YAML document or JSON value
)

// declared is a timer, a calendar or a limit as a file declares it.
type declared struct {
	declare.Object
	file string
	line int

	entry bool     // line is the number of an entry
	notes []string // differences from its source, if it was imported
}

// declarations collects the objects that files declare, and the problems in them.
type declarations struct {
	namespace string
	now       rouse.Instant

	list     []declared
	problems []rouse.Problem
	wrong    int               // problems, also those that are not kept
	bytes    int64             // read so far
	seen     map[string]string // the declared objects, with their places
}

// readDeclared reads files, and the files in directories. All problems are found before anything is changed.
func readDeclared(a *cli.App, paths []string, now rouse.Instant) ([]declared, error) {
	d := &declarations{namespace: a.Flags.Namespace, now: now, seen: map[string]string{}}
	for _, path := range paths {
		files, err := declaringFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			body, err := cli.ReadUpTo(a.In, "file", file, maxDeclared-d.bytes)
			if err != nil {
				return nil, err
			}
			d.bytes += int64(len(body))
			d.readDocuments(file, body)
		}
	}
	if d.wrong > len(d.problems) {
		d.problems = append(d.problems, rouse.Problem{Field: "file",
			Wrong: fmt.Sprintf("has %d more problems", d.wrong-len(d.problems)), Cure: "fix these first"})
	}
	if d.wrong > 0 {
		return nil, &rouse.Invalid{Problems: d.problems}
	}
	return d.list, nil
}

// declaringFiles returns a file, or those of a directory and the directories in it that declare something,
// in the order of their names. Hidden ones are left out.
func declaringFiles(path string) (files []string, err error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, rouse.Refuse("file", path, "cannot be read: "+cli.BareFileError(err), "name a file or a directory")
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
		hidden := p != path && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return rouse.Refuse("file", p, "cannot be read: "+cli.BareFileError(err), "name a file or a directory")
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() || hidden || !slices.Contains([]string{".yaml", ".yml", ".json", ".jsonl"},
			strings.ToLower(filepath.Ext(p))):
			return nil
		}
		if info, err := os.Stat(p); err == nil && info.IsDir() { // by a symbolic link, as in a mounted ConfigMap
			return nil
		}
		files = append(files, p)
		return nil
	})
	if err == nil && len(files) == 0 {
		err = rouse.Refuse("file", path, "has no file that declares timers",
			"name a directory with files that end in .yaml, .yml, .json or .jsonl")
	}
	return files, err
}

// readDocuments reads a file: YAML by its name, or if it does not begin as JSON does.
func (d *declarations) readDocuments(file string, body []byte) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	head := bytes.TrimLeft(body, " \t\r\n")
	if ext := strings.ToLower(filepath.Ext(file)); ext != ".yaml" && ext != ".yml" && len(head) > 0 &&
		(head[0] == '{' || head[0] == '[') {
		d.readJSON(file, body)
		return
	}
	line := 1
	for len(body) > 0 {
		n := foreign.DocumentEnd(body)
		d.readYAML(file, body[:n], line)
		line += bytes.Count(body[:n], []byte{'\n'})
		body = body[n:]
	}
}

// readJSON reads the values of a file: objects one after another, as in JSON Lines, or arrays of them.
func (d *declarations) readJSON(file string, body []byte) {
	// duplicates are refused with their names
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	line, counted := 1, 0
	for {
		kind := dec.PeekKind()
		if kind == jsontext.KindBeginArray && dec.StackDepth() == 0 || kind == jsontext.KindEndArray {
			if _, err := dec.ReadToken(); err == nil {
				continue
			}
		}
		if kind == 0 && len(bytes.TrimSpace(body[dec.InputOffset():])) == 0 && dec.StackDepth() == 0 {
			return
		}
		value, err := dec.ReadValue()
		end := int(dec.InputOffset())
		begin := end - len(value)
		line, counted = line+bytes.Count(body[counted:max(begin, counted)], []byte{'\n'}), max(begin, counted)
		if err != nil {
			d.addProblem(file, line, "body", "", "is no valid JSON after this line: "+strings.TrimPrefix(err.Error(),
				"jsontext: "), "give objects one after another, or an array of them")
			return
		}
		d.readObject(file, line, value, func(field string) int { return line + lineInJSON(value, field) })
	}
}

// lineInJSON returns in which line of a value a member is, from 0 on.
func lineInJSON(value []byte, field string) int {
	tree, err := parser.ParseBytes(value, 0, parser.AllowDuplicateMapKey())
	if err != nil || len(tree.Docs) != 1 {
		return 0
	}
	return memberLine(tree.Docs[0].Body, field) - 1
}

// readYAML reads a document, of which the first line has this number: an object, or a list of them.
func (d *declarations) readYAML(file string, body []byte, first int) {
	if len(body) > maxDeclaredDocument {
		d.addProblem(file, first, "yaml", "", fmt.Sprintf("has a document of more than %d bytes", maxDeclaredDocument),
			"put a line --- between timers")
		return
	}
	tree, err := parser.ParseBytes(body, 0)
	if err != nil {
		line, what := 1, err.Error()
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
			line, what = syntax.Token.Position.Line, syntax.Message
		}
		d.addProblem(file, first+line-1, "yaml", "", "is malformed: "+what,
			"put texts that begin with a special character, such as * and @, in quotes")
		return
	}
	for _, doc := range tree.Docs {
		var nodes []ast.Node
		switch b := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
		case *ast.SequenceNode:
			nodes = b.Values
		default:
			nodes = []ast.Node{b}
		}
		for _, node := range nodes {
			line := first + node.GetToken().Position.Line - 1
			if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
				line = first + m.Values[0].Key.GetToken().Position.Line - 1
			}
			value, fault, at := jsonOf(nil, node)
			if fault != "" {
				d.addProblem(file, first+at.GetToken().Position.Line-1, "yaml", at.String(), fault,
					"write the value out, numbers in decimal; put texts in quotes: \"01234\"")
				continue
			}
			d.readObject(file, line, value, func(field string) int { return first + memberLine(node, field) - 1 })
		}
	}
}

// jsonOf appends a YAML node as JSON, in the order of its members. A value that JSON lacks, and a reference
// to another part of the file, is a fault.
func jsonOf(to []byte, node ast.Node) (out []byte, fault string, at ast.Node) {
	scalar := func(v any) ([]byte, string, ast.Node) {
		text, err := json.Marshal(v)
		if err != nil {
			return to, "has no form in JSON", node
		}
		return append(to, text...), "", nil
	}
	switch n := node.(type) {
	case *ast.StringNode:
		if n.Token.Type == token.StringType && yamlNumber.MatchString(n.Value) { // the parser takes some numbers for texts
			number, fault := jsonNumberOf(n.Value)
			return append(to, number...), fault, node
		}
		return scalar(n.Value)
	case *ast.LiteralNode:
		return scalar(n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		number, fault := jsonNumberOf(node.GetToken().Value)
		return append(to, number...), fault, node
	case *ast.BoolNode:
		return scalar(n.Value)
	case *ast.NullNode:
		return append(to, "null"...), "", nil
	case *ast.SequenceNode:
		to = append(to, '[')
		for i, v := range n.Values {
			if i > 0 {
				to = append(to, ',')
			}
			if to, fault, at = jsonOf(to, v); fault != "" {
				return to, fault, at
			}
		}
		return append(to, ']'), "", nil
	case *ast.MappingNode, *ast.MappingValueNode:
		to = append(to, '{')
		for i, p := range pairsIn(node) {
			if _, plain := p.Key.(*ast.StringNode); !plain {
				return to, "is no plain name of a member", p
			}
			if i > 0 {
				to = append(to, ',')
			}
			name, _ := json.Marshal(p.Key.GetToken().Value)
			to = append(append(to, name...), ':')
			if to, fault, at = jsonOf(to, p.Value); fault != "" {
				return to, fault, at
			}
		}
		return append(to, '}'), "", nil
	}
	return to, "has no form in JSON, or is an anchor, an alias or a tag", node
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	yamlNumber = regexp.MustCompile(
		`^([-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)$`)
	yamlInteger = regexp.MustCompile(`^(0o[0-7]+|0x[0-9a-fA-F]+)$`)
	yamlFloat   = regexp.MustCompile(`^([-+]?)(0|[1-9][0-9]*|)(\.?)([0-9]*)([eE][-+]?[0-9]+)?$`)
)

// jsonNumberOf returns a number of YAML's core schema as JSON, with all of its digits. Text that YAML 1.1 and
// 1.2 read as different values is a fault.
func jsonNumberOf(text string) (number, fault string) {
	if jsonNumber.MatchString(text) {
		return text, ""
	}
	if yamlInteger.MatchString(text) {
		if n, err := strconv.ParseUint(strings.Replace(text, "0o", "0", 1), 0, 64); err == nil {
			return strconv.FormatUint(n, 10), ""
		}
	}
	if m := yamlFloat.FindStringSubmatch(text); m != nil && m[2]+m[4] != "" && (m[3] != "" || m[4] == "") {
		number = strings.TrimPrefix(m[1], "+") + cmp.Or(m[2], "0")
		if m[4] != "" {
			number += "." + m[4]
		}
		return number + m[5], ""
	}
	if digits := strings.TrimLeft(text, "+-"); len(digits) > 1 && digits[0] == '0' &&
		strings.Trim(digits, "0123456789") == "" {
		return "", "is a number with leading zeros, which YAML 1.1 counts by eight"
	}
	return "", "is one value in YAML 1.1 and another in YAML 1.2, or has no form in JSON"
}

// pairsIn returns the members of a mapping.
func pairsIn(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// memberLine returns the line of a member with a path such as "retry.attempts" or "also[2]", as far as the
// path can be followed.
func memberLine(node ast.Node, field string) int {
	line := node.GetToken().Position.Line
	for i, v := range elementsOf(node) {
		if rest, ok := strings.CutPrefix(field, "["+strconv.Itoa(i)+"]"); ok {
			return memberLine(v, strings.TrimPrefix(rest, "."))
		}
	}
	for i, p := range pairsIn(node) {
		key := p.Key.GetToken()
		if i == 0 {
			line = key.Position.Line // the token of a mapping is a colon
		}
		rest, ok := strings.CutPrefix(field, key.Value)
		switch {
		case ok && rest == "":
			return key.Position.Line
		case ok && rest[0] == '[':
			return max(key.Position.Line, memberLine(p.Value, rest))
		case ok && rest[0] == '.':
			return max(key.Position.Line, memberLine(p.Value, rest[1:]))
		}
	}
	return line
}

func elementsOf(node ast.Node) []ast.Node {
	if s, ok := node.(*ast.SequenceNode); ok {
		return s.Values
	}
	return nil
}

// addProblem notes a problem.
func (d *declarations) addProblem(file string, line int, field, value, wrong, cure string) {
	if d.wrong++; len(d.problems) < cli.MaxTold {
		d.problems = append(d.problems, rouse.Problem{Field: fmt.Sprintf("%s:%d: %s", file, line, field),
			Value: rouse.Shorten(value, 128), Wrong: wrong, Cure: cure})
	}
}

// readObject reads a timer, a calendar or a limit. lineAt finds the line of a member.
func (d *declarations) readObject(file string, line int, value []byte, lineAt func(field string) int) {
	if len(value) > maxDeclaredDocument {
		d.addProblem(file, line, "body", "", fmt.Sprintf("has more than %d bytes", maxDeclaredDocument),
			"keep what is larger elsewhere")
		return
	}
	o := declared{file: file, line: line}
	err := o.Parse(value, d.namespace, d.now)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		for _, p := range inv.Problems {
			d.addProblem(file, lineAt(p.Field), p.Field, p.Value, p.Wrong, p.Cure)
		}
		return
	}
	if err != nil {
		d.addProblem(file, line, "body", "", err.Error(), "fix it")
		return
	}
	place := fmt.Sprintf("%s:%d", file, line)
	key := o.Kind() + " " + o.Name
	if first, twice := d.seen[key]; twice {
		d.addProblem(file, lineAt("name"), "name", o.Name, "is that of "+first+", too", "give each name once")
		return
	}
	d.seen[key] = place
	d.list = append(d.list, o)
}
