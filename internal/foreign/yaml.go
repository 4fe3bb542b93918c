package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
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

// jsonOf returns a YAML document as JSON, with its members in their order; an empty one is null. Anchors are
// resolved, which go-yaml's UseJSONUnmarshaler does not do for all.
func jsonOf(document []byte) (json.RawMessage, error) {
	var value any
	if err := yaml.NewDecoder(bytes.NewReader(document), yaml.UseOrderedMap()).Decode(&value); err != nil && !errors.Is(err, io.EOF) {
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
			to = append(append(to, payload(fmt.Sprint(item.Key))...), ':')
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
	text := payload(value)
	if len(text) == 0 {
		return nil, fmt.Errorf("%v has no form in JSON", value)
	}
	return append(to, text...), nil
}
