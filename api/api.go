// Package api has the JSON forms of rouse's words: the requests and answers of the HTTP API, and the output
// of the command line with --json. openapi.yaml describes them for others: "make generate" makes it of these
// structs, whose tags "schema" have the constraints that a type lacks, of the routes of internal/server, and
// of openapi.base.yaml.
//
// Names are in snake_case. Times are RFC 3339 in UTC with milliseconds; a time that is not set, or never
// comes, is left out. Durations are texts such as "1m30s". A payload is any JSON value in "payload", kept and
// delivered byte for byte, or any bytes in "payload_base64".
//
// Reading is strict (Decode): unknown members are refused and never dropped.
package api

import (
	_ "embed" // of OpenAPI

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// OpenAPI describes the HTTP API, in OpenAPI 3.1. A test of package server keeps it true.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Encode returns the JSON form of a value of this package, with the members of maps in order. Texts that are
// not UTF-8, such as a value that was refused for that, are shown with U+FFFD in place of wrong bytes.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
}
