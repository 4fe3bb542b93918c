package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// TestOfThisBinary writes the document of the test's own binary, whose modules are those of the tools.
func TestOfThisBinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeSBOM(&out, "..", self, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Packages) < 2 || d.Packages[1].Name != "std" || len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d packages, %d relationships: %v", len(d.Packages), len(d.Relationships), d.Packages)
	}
}

func TestDocument(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Path: "example.org/own"}, Deps: []*debug.Module{
		{Path: "github.com/Some/lib", Version: "v1.2.3", Sum: "h1:abc="},
		{Path: "gone", Version: "v1", Replace: &debug.Module{Path: "fork", Version: "v2"}}}}
	d := newDocument(info, func(m *debug.Module) string { return "MIT" }, time.Unix(0, 0))
	lib := d.Packages[2]
	if !strings.Contains(lib.Comment, "h1:abc=") || lib.Refs[0].Locator != "pkg:golang/github.com/Some/lib@v1.2.3" ||
		lib.ID != "SPDXRef-github.com-Some-lib-v1.2.3" || lib.Concluded != "MIT" {
		t.Errorf("%+v", lib)
	}
	if d.Packages[3].Name != "fork" {
		t.Errorf("a replaced module is %+v", d.Packages[3])
	}
	seen := map[string]bool{}
	for _, p := range d.Packages {
		if seen[p.ID] {
			t.Errorf("%s stands for two packages", p.ID)
		}
		seen[p.ID] = true
	}
}

func TestLicences(t *testing.T) {
	for text, want := range map[string]string{
		"  Apache License\n  Version 2.0, January 2004":                        "Apache-2.0",
		"Redistribution and use in source and binary forms … Neither the name": "BSD-3-Clause",
		"Redistribution and use in source\nand binary forms are permitted":     "BSD-2-Clause",
		"GNU AFFERO GENERAL PUBLIC LICENSE":                                    "AGPL-3.0",
		"all rights reserved":                                                  noAssertion,
	} {
		if got := identifyLicence(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	dir := t.TempDir()
	if id := licenceOf(dir); id != noAssertion || isAllowedLicence(id) {
		t.Errorf("a module without a licence has %s", id)
	}
	for name, text := range map[string]string{"LICENSE": "Apache License Version 2.0, January 2004", "LICENSE.libyaml": "GNU General Public License"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if id := licenceOf(dir); id != "Apache-2.0 AND GPL" || isAllowedLicence(id) {
		t.Errorf("a module under two licences has %s, allowed %t", id, isAllowedLicence(id))
	}
}
