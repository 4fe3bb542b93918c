#!/usr/bin/env bash
# goccy/go-yaml 1.19.2: a stream of documents ends at the first empty one, without an error.
#
# Expected: YAML 1.2 allows empty documents between "---" lines, and a decoder goes on behind them, as yaml.v3 and
# Kubernetes' own reader do. Templates print them: what helm template renders for a chart with a switched-off part has
# one in its place.
# Seen: Decoder.Decode returns io.EOF after the document before the empty one, and parser.ParseBytes drops what is
# behind it, too. Nothing tells that there is more in the file.
# Why it matters: a tool that applies manifests applies the first half of them, and one that prunes deletes the rest.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'MOD'
module finding

go 1.25.0

require (
	github.com/goccy/go-yaml v1.19.2
	gopkg.in/yaml.v3 v3.0.1
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"strings"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	v3 "gopkg.in/yaml.v3"
)

const text = "name: a\n---\n# switched off\n---\nname: b\n"

type decoder interface{ Decode(v any) error }

func count(name string, d decoder) {
	var names []string
	for {
		var v struct{ Name string }
		if err := d.Decode(&v); err != nil {
			fmt.Printf("%s: %q, then %v\n", name, names, err)
			return
		}
		if v.Name != "" {
			names = append(names, v.Name)
		}
	}
}

func main() {
	count("yaml.v3", v3.NewDecoder(strings.NewReader(text)))
	count("goccy", goccy.NewDecoder(strings.NewReader(text)))
	file, err := parser.ParseBytes([]byte(text), 0)
	fmt.Printf("parser: %q, %v\n", file.String(), err)
}
GO
go mod tidy >go.log 2>&1 || { cat go.log; exit 2; }
go run . >seen
cat seen

diff seen - <<'WANT'
yaml.v3: ["a" "b"], then EOF
goccy: ["a"], then EOF
parser: "name: a\n---\n", <nil>
WANT
