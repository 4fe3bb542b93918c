//go:build unix

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestGeneratedClients generates clients of the OpenAPI description, compiles them with a program, and runs
// that against a rouse with data of its own and one on Redis, whose revisions have 64 bits. It takes minutes:
// make clients-check runs it.
func TestGeneratedClients(t *testing.T) {
	if os.Getenv("ROUSE_GENERATED") == "" {
		t.Skip("make clients-check runs this")
	}
	script := exec.Command("../../scripts/generators")
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil { // also if they cannot be had: they were asked for
		t.Fatalf("the generators, see above: %v", err)
	}
	g := generators{T: t, have: strings.TrimSpace(string(out))}
	if g.description, err = filepath.Abs("../../api/openapi.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{"", servers.Redis(t)} {
		p := harness.NewProcess(t, "rouse", harness.TempDir(t), store)
		p.Start()
		g.urls = append(g.urls, "http://"+p.Address())
	}
	for name, check := range map[string]func(generators){
		"openapi-generator go": generators.goClient, "openapi-generator java": generators.javaClient, "openapi-generator typescript-fetch": generators.fetchClient,
		"openapi-python-client": generators.pythonClient, "openapi-typescript": generators.typesClient,
	} {
		t.Run(name, func(t *testing.T) {
			one := g
			one.T, one.dir = t, harness.TempDir(t)
			check(one)
		})
	}
}

// TestGeneratorsNameWhatIsMissing: without a program that they need, the check fails, and tells how to get
// it.
func TestGeneratorsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	for missing, want := range map[string]string{
		"python3": "python3 is not installed; make servers", "npm": "npm is not installed; make servers",
		"mvn": "mvn is not installed; make servers", "javac": "javac is not installed; make servers",
		"pip": "python3 has no pip for virtual environments; make servers",
	} {
		dir := t.TempDir()
		for _, program := range []string{"python3", "npm", "mvn", "javac"} {
			text := "#!/bin/sh\nexit 0\n"
			if program == "python3" && missing == "pip" {
				text = "#!/bin/sh\nexit 1\n"
			}
			if program == missing {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), bash, "../../scripts/generators")
		cmd.Env = []string{"PATH=" + dir, "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), want) {
			t.Errorf("without %s: %v: %s", missing, err, out)
		}
	}
}

// generators are the installed generators, and where one of them works.
type generators struct {
	*testing.T
	have, description, dir string
	urls                   []string // of the servers
}

// run runs a command in the directory, and returns what it writes.
func (g generators) run(env []string, name string, args ...string) string {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), name, args...)
	cmd.Dir, cmd.Env = g.dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	harness.EndWithParent(cmd.SysProcAttr)
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.Fatalf("%v: %v\n%s", cmd, err, out[max(0, len(out)-8000):])
	}
	return string(out)
}

// copy copies the program of a language to the directory.
func (g generators) copy(language, file string) {
	g.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/generated", language, file))
	if err == nil {
		err = os.WriteFile(filepath.Join(g.dir, file), text, 0o644)
	}
	if err != nil {
		g.Fatal(err)
	}
}

// generate runs openapi-generator. Its documented default refuses members that a later server adds.
func (g generators) generate(language, to, properties string, more ...string) {
	g.Helper()
	jars, err := filepath.Glob(g.have + "/java/openapi-generator-cli-*.jar")
	if err != nil || len(jars) != 1 {
		g.Fatal(jars, err)
	}
	out := g.run(nil, "java", append([]string{"-XX:TieredStopAtLevel=1", "-jar", jars[0], "generate", "-i", g.description, "-g", language, "-o", to,
		"--global-property", "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false",
		"--additional-properties", "disallowAdditionalPropertiesIfNotPresent=false" + properties}, more...)...)
	if strings.Contains(out, "ERROR") {
		g.Errorf("openapi-generator: %s", out)
	}
}

func (g generators) goClient() {
	g.generate("go", "rouseapi", ",packageName=rouseapi,withGoMod=false")
	g.copy("go", "main.go")
	if err := os.WriteFile(filepath.Join(g.dir, "go.mod"), []byte("module generated\n\ngo 1.24\n"), 0o644); err != nil {
		g.Fatal(err)
	}
	g.run([]string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "go", "build", "-o", "check", ".")
	g.run(nil, filepath.Join(g.dir, "check"), g.urls...)
}

func (g generators) javaClient() {
	// A member of any type would be sent as null when it is not set.
	g.generate("java", "java", ",openApiNullable=false", "--library", "native")
	g.copy("java", "Check.java")
	jars, err := filepath.Glob(g.have + "/java/*.jar")
	if err != nil {
		g.Fatal(err)
	}
	path := strings.Join(append(jars, "classes"), string(os.PathListSeparator))
	var sources []string
	err = filepath.WalkDir(filepath.Join(g.dir, "java/src/main/java"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".java") {
			sources = append(sources, path)
		}
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	g.run(nil, "javac", append([]string{"-nowarn", "-d", "classes", "-cp", path, "Check.java"}, sources...)...)
	g.run(nil, "java", append([]string{"-cp", path, "Check"}, g.urls...)...)
}

func (g generators) pythonClient() {
	python := g.have + "/python/bin/python"
	out := g.run(nil, python, "-m", "openapi_python_client", "generate", "--path", g.description, "--meta", "none", "--output-path", "rouse_client")
	// It succeeds without what it has not made. It knows no calendars and archives, and no content of any
	// type.
	for _, bad := range []string{"Endpoint will not be generated", "Could not find reference", "Unable to parse"} {
		if strings.Contains(out, bad) {
			g.Errorf("%s: %s", bad, out)
		}
	}
	g.copy("python", "check.py")
	g.run(nil, python, "-m", "mypy", "--strict", "--follow-imports=silent", "check.py")
	g.run(nil, python, append([]string{"check.py"}, g.urls...)...)
}

func (g generators) fetchClient() {
	g.generate("typescript-fetch", "generated", "")
	g.compile("fetch")
}

func (g generators) typesClient() {
	g.run(nil, g.have+"/node/node_modules/.bin/openapi-typescript", g.description, "-o", "generated.d.ts")
	g.compile("types")
}

// compile compiles and runs a program in TypeScript.
func (g generators) compile(language string) {
	g.Helper()
	g.copy(language, "check.ts")
	if err := os.Symlink(g.have+"/node/node_modules", filepath.Join(g.dir, "node_modules")); err != nil {
		g.Fatal(err)
	}
	g.run(nil, "node_modules/.bin/tsc", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "node16", "--moduleResolution", "node16", "--types", "node",
		"--outDir", "built", "check.ts")
	g.run(nil, "node", append([]string{"built/check.js"}, g.urls...)...)
}
