//go:build unix

package docs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// patience bounds what a page waits for, so that a hang fails with a message. Nothing is judged by it.
const patience = poll.Patience

// shell is a bash that runs the blocks of one page, one after another, in a directory of its own. It owns the
// processes that they start in the background, and ends them when it ends.
type shell struct {
	t                *testing.T
	api, admin, hook string            // addresses in place of those that the pages name
	ports            *strings.Replacer // puts them there
	out              string            // directory of scripts and outputs
	cmd              *exec.Cmd
	in               io.WriteCloser
	ended            *os.File      // a line for each block that ended
	lines            *bufio.Reader // of ended
	n                int           // blocks begun
}

// newShell starts bash with bin/rouse beneath it, as after make build. places are what is put in place of
// what pages name, in addition to the addresses of rouse.
func newShell(t *testing.T, places ...string) *shell {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the pages are written for bash, which is not here")
	}
	addresses := free(t, 9)
	s := &shell{t: t, api: addresses[0], admin: addresses[1], hook: addresses[2], out: t.TempDir()}
	s.ports = strings.NewReplacer(append(places, "127.0.0.1:7411", s.api, "127.0.0.1:7412", s.admin, "127.0.0.1:7413", s.hook,
		"127.0.0.1:7421", addresses[3], "127.0.0.1:7422", addresses[4], "127.0.0.1:50006", addresses[5], "127.0.0.1:7414", addresses[6], "127.0.0.1:7431", addresses[7], "127.0.0.1:7432", addresses[8],
		"rouse listen", "rouse listen --address "+s.hook, "rouse dev ", "rouse dev --listen "+s.api+" --admin "+s.admin+" ", "make build", "true")...)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Symlink(binary, filepath.Join(dir, "bin", "rouse"))); err != nil {
		t.Fatal(err)
	}
	tell, err := s.start(bash, dir)
	if err != nil {
		t.Fatal(err)
	}
	tell.Close()
	t.Cleanup(s.close)
	// What the blocks left running is ended by its id when the shell ends, however it ends.
	fmt.Fprintln(s.in, `trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT; set -e -o pipefail`)
	return s
}

func (s *shell) start(bash, dir string) (tell *os.File, err error) {
	if s.ended, tell, err = os.Pipe(); err != nil {
		return nil, err
	}
	s.lines = bufio.NewReader(s.ended)
	s.cmd = exec.Command(bash, "--noprofile", "--norc")
	s.cmd.Dir = dir
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.Getenv("TMPDIR"), "LC_ALL=C.UTF-8",
		"ROUSE_LISTEN=" + s.api, "ROUSE_ADMIN=" + s.admin, "ROUSE_SERVER=" + s.api}
	s.cmd.ExtraFiles = []*os.File{tell}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return tell, s.cmd.Start()
}

func (s *shell) close() {
	_ = s.in.Close()
	hang := time.AfterFunc(patience, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	_ = s.cmd.Wait() // a block that failed has been told
	hang.Stop()
	s.ended.Close()
}

// free returns loopback addresses on which nothing listens, and which are the test's until it ends, also
// while nothing listens on them.
func free(t *testing.T, n int) (list []string) {
	t.Helper()
	for range n {
		list = append(list, servers.FreeAddr(t))
	}
	return list
}

var (
	background = regexp.MustCompile(`(?m)^(.*) &( |$)`)
	begins     = regexp.MustCompile(`(?m)rouse (serve|dev|listen)\b(.*) &(?: |$)`)
	listensOn  = regexp.MustCompile(`--listen (\S+)`)
	ends       = regexp.MustCompile(`(?m)^kill .*\$(server|listener|\(jobs -p\))`)
	reads      = regexp.MustCompile(`^(bin/rouse (get|list|fires|dead|explain|simulate|next|config|version|nodes|reminders)\b|curl -s '?http)`)
)

// run runs a block to its end, waits for what it began, and compares its output with the page.
func (s *shell) run(b block, want result) {
	s.t.Helper()
	out, told := s.once(b)
	begun := begins.FindAllStringSubmatch(b.text, -1)
	for _, kind := range begun {
		api := s.api
		if other := listensOn.FindStringSubmatch(kind[2]); other != nil {
			api = s.ports.Replace(other[1])
		}
		announced := map[string]string{"serve": " serves on " + api, "dev": " serves on " + api, "listen": "listening on http://" + s.hook}[kind[1]]
		s.until(b, func() (bool, string) {
			return strings.Contains(s.printed()[told:], announced), "nothing prints" + announced + ":\n" + s.printed()[told:]
		})
	}
	for _, kind := range ends.FindAllStringSubmatch(b.text, -1) {
		if len(begun) > 0 {
			break // it waits itself
		}
		s.until(b, func() (bool, string) {
			return (kind[1] == "listener" || !listens(s.api)) && (kind[1] == "server" || !listens(s.hook)), "what was killed still listens"
		})
	}
	if want.as == "" {
		return
	}
	// What a block prints is judged at once, but a look is tried again, as a fire may be on its way. If the
	// block prints nothing, the page means what the processes in the background print.
	looks := !slices.ContainsFunc(strings.Split(strings.TrimSpace(b.text), "\n"), func(line string) bool { return !reads.MatchString(line) })
	report := func() string {
		return fmt.Sprintf("it printed\n%s\nand what is in the background\n%s\nthe page shows\n%s", out, s.printed()[told:], want.text)
	}
	if !looks && tidy(out) != "" && !want.matches(out) {
		s.t.Fatalf("%s:%d: %s", b.page, b.line, report())
	}
	s.until(b, func() (bool, string) {
		if want.matches(out) || tidy(out) == "" && want.appearsIn(s.printed()[told:]) {
			return true, ""
		}
		why := report()
		if looks {
			out, _ = s.once(b)
		}
		return false, why
	})
}

// once runs a block; told is how much background processes had printed before.
func (s *shell) once(b block) (out string, told int) {
	s.t.Helper()
	s.n++
	told = len(s.printed())
	script, output := filepath.Join(s.out, fmt.Sprintf("%d.sh", s.n)), filepath.Join(s.out, fmt.Sprintf("%d.out", s.n))
	text := background.ReplaceAllString(s.ports.Replace(b.text), `>>"`+s.background()+`" 2>&1 3>&- $1 &$2`)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(s.in, ". '%s' </dev/null >'%s' 2>&1; echo >&3\n", script, output); err != nil {
		s.t.Fatalf("%s:%d: the shell has ended: %v", b.page, b.line, err)
	}
	_ = s.ended.SetReadDeadline(time.Now().Add(patience))
	_, failed := s.lines.ReadString('\n')
	printed, err := os.ReadFile(output)
	if failed != nil || err != nil {
		s.t.Fatalf("%s:%d: the block fails or hangs (%v): it printed\n%s\nand what is in the background\n%s", b.page, b.line, failed, printed, s.printed())
	}
	return string(printed), told
}

func (s *shell) background() string { return filepath.Join(s.out, "background.out") }

// printed is what background processes have printed.
func (s *shell) printed() string {
	body, err := os.ReadFile(s.background())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(body)
}

// until waits for a condition.
func (s *shell) until(b block, holds func() (bool, string)) {
	s.t.Helper()
	why := ""
	if !poll.Holds(patience, func() (ok bool) { ok, why = holds(); return ok }) {
		s.t.Fatalf("%s:%d: %s", b.page, b.line, why)
	}
}

func listens(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}
