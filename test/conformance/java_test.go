//go:build unix

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// errNoMaven is the error of jar where the Java client cannot be built.
var errNoMaven = errors.New("what the Java client is built with cannot be had")

// jar builds the Java client as its users get it, with the jars of its sources and of its documentation, and
// runs its tests, the examples among them. It returns the directory with the jars.
var jar = sync.OnceValues(func() (string, error) {
	binary, err := harness.Binary()
	if err != nil {
		return "", err
	}
	script := exec.Command("../../scripts/java-packages")
	script.Stderr = os.Stderr
	repository, err := script.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 75 {
		return "", errNoMaven
	} else if err != nil {
		return "", err
	}
	clients, err := filepath.Abs("../../clients")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(harness.Scratch(), "java")
	if err := os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join(clients, "java/src"))); err != nil {
		return "", err
	}
	for _, name := range []string{"pom.xml", "README.md", "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(clients, "java", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	const quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" // these programs end before more would pay
	cmd := exec.Command("mvn", "-o", "-q", "-B", "-Dmaven.repo.local="+strings.TrimSpace(string(repository)), "-DargLine="+quick,
		"-Drouse.docs="+filepath.Join(clients, "../docs"), "package")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ROUSE_BINARY="+binary, "MAVEN_OPTS="+quick)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	harness.EndWithParent(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(cmd.String() + ": " + err.Error() + "\n" + string(out))
	}
	return filepath.Join(dir, "target"), nil
})

// java returns a command of Java that has the jar of the client, and its tests. Where it cannot be built, the
// test is skipped.
func java(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	target, err := jar()
	if errors.Is(err, errNoMaven) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	jars, err := filepath.Glob(filepath.Join(target, "rouse-*[0-9].jar"))
	if err != nil || len(jars) != 1 {
		t.Fatalf("Maven has not written one jar, but %q", jars)
	}
	path := jars[0] + string(os.PathListSeparator) + filepath.Join(target, "test-classes")
	cmd := exec.CommandContext(t.Context(), "java", append([]string{"-cp", path}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	harness.EndWithParent(cmd.SysProcAttr)
	return cmd
}

// TestJava builds the Java client and runs its tests, and looks at what it is made of.
func TestJava(t *testing.T) {
	t.Parallel()
	java(t)
	target, _ := jar()
	jars, err := filepath.Glob(filepath.Join(target, "*.jar"))
	if err != nil || len(jars) != 3 {
		t.Errorf("the jars are %q, %v: want one of classes, of sources and of documentation", jars, err)
	}
	pom, err := os.ReadFile("../../clients/java/pom.xml")
	if err != nil || strings.Contains(string(pom), "epositor") {
		t.Errorf("pom.xml names a repository: leave that to the settings of Maven (%v)", err)
	}
}
