package main

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// document is an SPDX 2.3 document, as far as it is used here.
type document struct {
	Version       string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Location  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	Concluded string     `json:"licenseConcluded"`
	Declared  string     `json:"licenseDeclared"`
	Copyright string     `json:"copyrightText"`
	Comment   string     `json:"comment,omitempty"`
	Refs      []external `json:"externalRefs,omitempty"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// newDocument returns the document of a binary with this build information.
func newDocument(info *debug.BuildInfo, licence func(*debug.Module) string, now time.Time) document {
	self := info.Main
	self.Version = cmp.Or(self.Version, "(devel)")
	d := document{Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:      self.Path + "@" + self.Version,
		Namespace: fmt.Sprintf("https://%s/spdx/%s/%d", self.Path, url.PathEscape(self.Version), now.UnixNano()),
		Creation:  creation{Created: now.UTC().Format(time.RFC3339), Creators: []string{"Tool: rouse-sbom"}}}
	add := func(m *debug.Module, licence string) string {
		p := spdxPackage{ID: "SPDXRef-" + notInID.ReplaceAllString(m.Path+"-"+m.Version, "-"), Name: m.Path,
			Version:  m.Version,
			Location: "NOASSERTION", Concluded: licence, Declared: licence, Copyright: "NOASSERTION",
			Refs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}}
		if m.Sum != "" {
			p.Comment = "checksum of the module, as in go.sum: " + m.Sum
		}
		d.Packages = append(d.Packages, p)
		return p.ID
	}
	root := add(&self, "Apache-2.0")
	d.Relationships = append(d.Relationships, relationship{d.ID, "DESCRIBES", root})
	std := &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	d.Relationships = append(d.Relationships, relationship{root, "DEPENDS_ON", add(std, "BSD-3-Clause")})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Relationships = append(d.Relationships, relationship{root, "DEPENDS_ON", add(m, licence(m))})
	}
	return d
}
