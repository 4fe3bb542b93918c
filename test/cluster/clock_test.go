//go:build linux && amd64

package cluster

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// TestClocksAreWrong lets the clocks of two nodes be wrong by an hour, one ahead and one behind, and then the
// other way round, while they run. Nodes use the store's clock, so that is no fault: nothing may be early,
// late or doubled, and no node loses a lease.
func TestClocksAreWrong(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres, more: true},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.flags = lasting
			s := y.set(t)
			for range harness.Rounds(t, 1, 1) {
				for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
					s.f.nodes[0].skew(wrong)
					s.f.nodes[1].skew(-wrong)
					s.lasts(lease)
					s.Progress(20)
				}
			}
			s.finish(100)
		})
	}
}

// What time.Now adds to the seconds that the kernel gave it: unixToInternal-minWall of package time, as a
// register is loaded with it.
const nowAdds = 62135596800 - 59453308800

// skew lets the wall clock of a running node be wrong by so much, whatever it was wrong by before. Go asks
// the kernel past every library that could lie to it, so what lies is time.Now itself, whose code is changed
// in the process's memory.
func (n *node) skew(d time.Duration) {
	n.T.Helper()
	n.Freeze()
	err := n.rewriteNow(d)
	n.Signal(syscall.SIGCONT)
	if err != nil {
		n.T.Fatalf("%s: the clock cannot be changed: %v", n.Name, err)
	}
	harness.Until(n.T, harness.Always("%s does not report the wrong time", n.Name), func() bool { return n.isWrongBy(d) })
}

// isWrongBy reports whether the node's clock is wrong by about so much, by the Date header of its answers.
func (n *node) isWrongBy(wrong time.Duration) bool {
	resp, err := http.Get("http://" + n.Admin() + "/livez")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	return err == nil && (time.Until(at)-wrong).Abs() < time.Minute
}

func (n *node) rewriteNow(d time.Duration) error {
	pid := n.Cmd.Process.Pid
	exe, err := elf.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return err
	}
	defer exe.Close()
	symbols, err := exe.Symbols()
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	for _, s := range symbols {
		if s.Name != "time.Now" {
			continue
		}
		code := make([]byte, s.Size)
		if _, err := memory.ReadAt(code, int64(s.Value)); err != nil {
			return err
		}
		load := func(skew time.Duration) []byte { // movl $nowAdds+skew, %esi
			return binary.LittleEndian.AppendUint32([]byte{0xbe}, uint32(nowAdds+int64(skew/time.Second)))
		}
		at := bytes.Index(code, load(n.skewed))
		if at < 0 {
			return fmt.Errorf("time.Now is another than that of which this test knows how to make it lie")
		}
		n.skewed = d
		_, err := memory.WriteAt(load(d), int64(s.Value)+int64(at))
		return err
	}
	return fmt.Errorf("it has no symbol time.Now")
}
