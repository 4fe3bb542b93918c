package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// statement is an in-toto statement with SLSA's provenance, as far as it is used here.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	Definition struct {
		Type         string            `json:"buildType"`
		Parameters   map[string]any    `json:"externalParameters"`
		Internal     map[string]string `json:"internalParameters"`
		Dependencies []subject         `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	Run struct {
		Builder map[string]string `json:"builder"`
	} `json:"runDetails"`
}

// writeChecksums writes the checksums of all files, and the statement of how they were made. The statement is
// not signed: it is worth as much as the way that it came.
func (r *release) writeChecksums(ctx context.Context) error {
	entries, err := os.ReadDir(r.out) // in the order of names
	if err != nil {
		return err
	}
	var subjects []subject
	var sums bytes.Buffer
	add := func(name string) error {
		body, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		subjects = append(subjects, subject{Name: name, Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}})
		fmt.Fprintf(&sums, "%x  %s\n", sum, name)
		return nil
	}
	for _, e := range entries {
		if err := add(e.Name()); err != nil {
			return err
		}
	}
	toolchain, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", Subject: subjects,
		PredicateType: "https://slsa.dev/provenance/v1"}
	d := &s.Predicate.Definition
	d.Type = homepage + "/blob/main/tools/release/main.go"
	d.Parameters = map[string]any{"version": r.version, "program": r.program}
	d.Internal = map[string]string{"flags": strings.Join(r.flags, " "), "go": strings.TrimSpace(string(toolchain))}
	d.Dependencies = []subject{{URI: "git+" + homepage, Digest: map[string]string{"gitCommit": r.commit}}}
	s.Predicate.Run.Builder = map[string]string{"id": homepage + "/blob/main/Makefile#release"}
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	const name = "rouse.intoto.json"
	if err := os.WriteFile(filepath.Join(r.out, name), append(body, '\n'), 0o644); err != nil {
		return err
	}
	if err := add(name); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}
