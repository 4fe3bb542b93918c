package rouse_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// foreign are the packages of others that documents and texts tell users to install, each with the reason.
var foreign = map[string]string{
	"standardwebhooks": "receivers without a client verify signatures with it",
	"cryptography":     "the extra ed25519 of the Python client, for programs that install it by itself",
	"dapr/dapr":        "the chart of Dapr, whose scheduler rouse replaces",
}

var (
	// installing finds the arguments of commands that install packages, up to the end of the command.
	installing = regexp.MustCompile("\\b(?:pip3? install|(?:npm|pnpm|yarn) (?:install|add|i)|npx|go (?:get|install)) " +
		"([^`|;&\\n]+)")
	// installingChart finds the chart that Helm installs.
	installingChart = regexp.MustCompile(`\bhelm (?:install|upgrade) [a-z-]+ (\S+)`)
	dependency      = regexp.MustCompile(`(?s)<dependency>.*?</dependency>`)
	// packageName is the name of a package, without quotes, extras and versions.
	packageName = regexp.MustCompile(`^[@A-Za-z0-9][A-Za-z0-9_./@-]*`)
)

// TestPackagesToInstallAreOurs checks the commands that install packages, in each document, comment and text:
// each names a directory, a package of others that is known here, or one of ours by the name in its manifest.
// A name that is not ours in a registry may be taken by anyone. Until the packages are published, a document
// that names one has to mention it.
func TestPackagesToInstallAreOurs(t *testing.T) {
	ours := packagesOfManifests(t)
	used := map[string]bool{}
	files := output(t, "git", "ls-files", "*.md", "*.go", "*.py", "*.ts", "*.java", "*.txt", "*.yaml", "*.tpl")
	for _, file := range strings.Fields(files) {
		body, err := os.ReadFile(file)
		if err != nil || file == "install_test.go" {
			continue // deleted, and not committed yet
		}
		var names []string
		for _, command := range installing.FindAllStringSubmatch(string(body), -1) {
			names = append(names, packagesOf(command[1])...)
		}
		for _, command := range installingChart.FindAllStringSubmatch(string(body), -1) {
			if _, err := os.Stat(filepath.FromSlash(command[1])); err != nil {
				names = append(names, command[1])
			}
		}
		for _, m := range dependency.FindAllString(string(body), -1) {
			names = append(names, mavenName(t, m))
		}
		for _, name := range names {
			used[name] = true
			if !ours[name] && foreign[name] == "" {
				t.Errorf("%s: %s is to be installed, and is no package of ours: "+
					"give a directory, the name in the manifest, or a reason in this test", file, name)
			}
			if ours[name] && !strings.Contains(string(body), "not published yet") {
				t.Errorf("%s: %s is to be installed: mention that it is not published yet, "+
					"and the command that works in a checkout", file, name)
			}
		}
	}
	for name := range foreign {
		if !used[name] {
			t.Errorf("%s has a reason in this test, and is to be installed nowhere", name)
		}
	}
}

// packagesOfManifests returns the names of our packages: those in the manifests of the clients and in go.mod.
func packagesOfManifests(t *testing.T) map[string]bool {
	t.Helper()
	read := func(name string) []byte {
		body, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	var npm struct{ Name string }
	if err := json.Unmarshal(read("clients/typescript/package.json"), &npm); err != nil {
		t.Fatal(err)
	}
	pypi := regexp.MustCompile(`(?m)^name = "([^"]+)"`).FindSubmatch(read("clients/python/pyproject.toml"))
	module := regexp.MustCompile(`(?m)^module (\S+)`).FindSubmatch(read("go.mod"))
	if npm.Name == "" || pypi == nil || module == nil {
		t.Fatal("a manifest has no name")
	}
	maven := mavenName(t, string(read("clients/java/pom.xml")))
	return map[string]bool{npm.Name: true, string(pypi[1]): true, string(module[1]): true, maven: true}
}

// mavenName returns the coordinates in a project or a dependency of Maven.
func mavenName(t *testing.T, text string) string {
	t.Helper()
	var m struct {
		Group    string `xml:"groupId"`
		Artifact string `xml:"artifactId"`
		Version  string `xml:"version"`
	}
	if err := xml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m.Group + ":" + m.Artifact + ":" + m.Version
}

// packagesOf returns the packages among the arguments of a command: neither flags nor directories and files.
func packagesOf(arguments string) (names []string) {
	before := ""
	for _, word := range strings.Fields(arguments) {
		bare := strings.TrimLeft(word, `'"`)
		name := packageName.FindString(bare)
		switch {
		case strings.HasPrefix(bare, "-"), strings.HasPrefix(bare, "."), before == "-r":
		case name == "":
			return names // the text goes on after the command
		default:
			names = append(names, name)
			if strings.ContainsAny(word[1:], `'")`) {
				return names
			}
		}
		before = word
	}
	return names
}
