package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noAssertion is SPDX's word for a licence that is not known.
const noAssertion = "NOASSERTION"

// permitted are the licences that linked modules may have, by their SPDX identifiers. MPL-2.0 asks for the
// source of its own files only, and they are linked unchanged.
var permitted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0",
	"blessing"} // SQLite's, which is in the public domain

// notLinked are the ends of the names of licences of documents and pictures.
var notLinked = []string{".DOCS", "-LOGO"}

func isAllowedLicence(id string) bool {
	for one := range strings.SplitSeq(id, " AND ") {
		if !slices.Contains(permitted, one) {
			return false
		}
	}
	return true
}

// licenceOf returns the licences of the module in a directory as an SPDX expression.
func licenceOf(dir string) string {
	var ids []string
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") || f.IsDir() ||
			slices.ContainsFunc(notLinked, func(end string) bool { return strings.HasSuffix(name, end) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		if id := identifyLicence(string(text)); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return noAssertion
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND ")
}

// licences have phrases that their texts, and no other ones here, contain. The first that fits counts.
var licences = []struct {
	id      string
	phrases []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004"}},
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}},
	{"AGPL-3.0", []string{"gnu affero general public license"}},
	{"LGPL", []string{"gnu lesser general public license"}},
	{"GPL", []string{"gnu general public license"}},
	{"BUSL-1.1", []string{"business source license"}},
	{"blessing", []string{"sqlite is public domain"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy",
		"the software is provided \"as is\""}},
	{"ISC",
		[]string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"}},
	{"ISC",
		[]string{"permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "neither the name"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms",
		"the names of its contributors may not be used to endorse"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}},
}

// identifyLicence returns the SPDX identifier of a licence's text.
func identifyLicence(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	text = strings.NewReplacer("“", `"`, "”", `"`, "``", `"`, "''", `"`).Replace(text)
	for _, l := range licences {
		if !slices.ContainsFunc(l.phrases, func(p string) bool { return !strings.Contains(text, p) }) {
			return l.id
		}
	}
	return noAssertion
}
