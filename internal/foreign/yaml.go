package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// DocumentEnd returns where the next document of a YAML file begins: at a line "---", which can be nothing
// else. So one document at a time is in memory as a tree, and an empty one is not the end: go-yaml 1.19 reads
// nothing after it.
func DocumentEnd(body []byte) int {
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte("\n---"))
		if i < 0 {
			return len(body)
		}
		at += i + 1
		if rest := body[at+3:]; len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])) {
			return at
		}
	}
}

// maxAliased bounds the bytes that the aliases of YAML add to a file.
const maxAliased = 4 << 20

// checkAliases refuses a YAML document in which aliases, which can be nested, add too much.
func (o *Options) checkAliases(document []byte) error {
	if !bytes.ContainsRune(document, '&') {
		return nil
	}
	tree, err := parser.ParseBytes(document, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil // the decoder has the same error
	}
	a := aliases{sizes: map[string]int{}, added: o.aliased}
	for _, d := range tree.Docs {
		ast.Walk(&a, d.Body)
	}
	if o.aliased = a.added; a.added > maxAliased {
		return fmt.Errorf("it has aliases, which add more than %d bytes to it: write out what they stand for", maxAliased)
	}
	return nil
}

// aliases counts the bytes of a YAML document, and those that aliases add.
type aliases struct {
	sizes       map[string]int // of nodes with an anchor, with the bytes of their own aliases
	size, added int
}

// Visit counts a node. Nothing is counted any more when too much was added, so that sums stay small.
func (a *aliases) Visit(node ast.Node) ast.Visitor {
	if node == nil || a.added > maxAliased {
		return nil
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		before := a.size
		ast.Walk(a, n.Value)
		a.sizes[n.Name.GetToken().Value] = a.size - before
		return nil
	case *ast.AliasNode:
		size := a.sizes[n.Value.GetToken().Value]
		a.size, a.added = a.size+size, a.added+size
		return nil
	}
	if t := node.GetToken(); t != nil {
		a.size += len(t.Value) + 1
	}
	return a
}

// decodeYAML returns the value of a YAML document, with its members in their order; that of an empty one is
// nil.
func (o *Options) decodeYAML(document []byte, more ...yaml.DecodeOption) (value any, err error) {
	if err := o.checkAliases(document); err != nil {
		return nil, err
	}
	err = yaml.NewDecoder(bytes.NewReader(document), append(more, yaml.UseOrderedMap())...).Decode(&value)
	if errors.Is(err, io.EOF) {
		return nil, nil // an empty document has no value
	}
	return value, err
}

// jsonOf returns a YAML document as JSON, with its members in their order; an empty one is null. Anchors are
// resolved, which go-yaml's UseJSONUnmarshaler does not do for all.
func (o *Options) jsonOf(document []byte) (json.RawMessage, error) {
	value, err := o.decodeYAML(document)
	if err != nil {
		return nil, err
	}
	return appendJSON(nil, value)
}

// oneLine returns an error of jsonOf on one line, for a document that begins in a line of its file.
func oneLine(err error, first int) string {
	if told, ok := errors.AsType[yaml.Error](err); ok && told.GetToken() != nil {
		return fmt.Sprintf("line %d: %s", first+told.GetToken().Position.Line-1, told.GetMessage())
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func appendJSON(to []byte, value any) (out []byte, err error) {
	switch v := value.(type) {
	case yaml.MapSlice:
		to = append(to, '{')
		for i, item := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(append(to, encodePayload(fmt.Sprint(item.Key))...), ':')
			if to, err = appendJSON(to, item.Value); err != nil {
				return nil, err
			}
		}
		return append(to, '}'), nil
	case []any:
		to = append(to, '[')
		for i, item := range v {
			if i > 0 {
				to = append(to, ',')
			}
			if to, err = appendJSON(to, item); err != nil {
				return nil, err
			}
		}
		return append(to, ']'), nil
	}
	text := encodePayload(value)
	if len(text) == 0 {
		return nil, fmt.Errorf("%v has no form in JSON", value)
	}
	return append(to, text...), nil
}
