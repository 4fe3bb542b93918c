package subprocess

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// worker is a worker across all its restarts, until it is drained.
type worker struct {
	d    *Driver
	key  string
	vars map[string]string
	end  chan struct{} // closed when it is to end
	once sync.Once
	soon chan struct{} // receives a value if the backoff ends early

	mu     sync.Mutex // guards the fields below, which other goroutines read
	is     driver.Worker
	proved bool // it has worked since its last start
}

func newWorker(d *Driver, g driver.Group) *worker {
	return &worker{d: d, key: g.Key, vars: g.Vars, end: make(chan struct{}), soon: make(chan struct{}, 1),
		is: driver.Worker{ID: d.newID(), Key: g.Key, State: driver.Running, Since: time.Now()}}
}

// requestDrain asks the worker to end.
func (w *worker) requestDrain() { w.once.Do(func() { close(w.end) }) }

func (w *worker) isDraining() bool {
	select {
	case <-w.end:
		return true
	default:
		return false
	}
}

func (w *worker) workerView() driver.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.is
	if w.isDraining() {
		v.State = driver.Draining
	}
	return v
}

func (w *worker) changeState(change func(is *driver.Worker)) {
	w.mu.Lock()
	change(&w.is)
	w.is.Since = time.Now()
	w.mu.Unlock()
	w.d.notifyChanged()
}

// restartUntilDrained restarts the worker until it is drained.
func (w *worker) restartUntilDrained() {
	defer w.d.removeWorker(w)
	b := backoff.New(w.d.config.FirstPause, w.d.config.LongestPause)
	for !w.isDraining() {
		began := time.Now()
		id := w.is.ID
		if w.is.Starts > 0 {
			id = w.d.newID()
		}
		w.mu.Lock()
		w.proved = false
		w.mu.Unlock()
		w.changeState(func(is *driver.Worker) { is.ID, is.State, is.Starts = id, driver.Running, is.Starts+1 })
		log := w.d.config.Log.With("pool", w.d.config.Pool, "key", driver.GroupName(w.key), "worker", id)
		how := w.runOnce(id, log)
		if w.isDraining() {
			log.Info("worker ended", "how", how)
			return
		}
		if time.Since(began) >= w.d.config.Stable || w.hasProved() {
			b.Reset()
		}
		pause := b.Next()
		log.Warn("a worker ended by itself", "how", how, "again_in", pause)
		w.changeState(func(is *driver.Worker) { is.State, is.LastExit = driver.Waiting, how })
		select {
		case <-time.After(pause):
		case <-w.soon:
			b.Reset()
		case <-w.end:
			return
		}
	}
}

func (w *worker) hasProved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proved
}

// markProved records that the worker has worked, if it is running.
func (w *worker) markProved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proved = w.proved || w.is.State == driver.Running
}

// endBackoff ends the backoff, if the worker is in one.
func (w *worker) endBackoff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.is.State != driver.Waiting {
		return
	}
	notify.Send(w.soon)
}

// runOnce runs the worker once and returns how it ended.
func (w *worker) runOnce(id string, log *slog.Logger) string {
	out := &lines{log: log}
	cmd := exec.Command(w.d.config.Command[0], w.d.config.Command[1:]...)
	cmd.Dir, cmd.Env = w.d.config.Dir, w.d.workerEnvironment(id, w.vars)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // its child processes may keep its output open
	if err := w.d.spawner.spawnProcess(cmd); err != nil {
		return err.Error()
	}
	group := cmd.Process.Pid
	w.d.reaper.addProcessGroup(group)
	log.Info("worker started", "pid", group)

	ended, err := make(chan error, 1), error(nil)
	if end := w.d.ends.endOfProcess(cmd.Process); end != nil {
		err = w.waitForProcess(end, cmd.Wait, group, log)
	} else {
		over := make(chan struct{})
		go func() { ended <- cmd.Wait(); close(over) }()
		err = w.waitForProcess(over, func() error { return <-ended }, group, log)
	}
	_ = signalGroup(group, syscall.SIGKILL) // its remaining child processes, if any
	w.d.reaper.removeProcessGroup(group)
	out.flushLine()
	return howItEnded(err)
}

// waitForProcess waits for the end of a process, and ends it if the worker is drained. result returns how it
// ended.
func (w *worker) waitForProcess(ended <-chan struct{}, result func() error, group int, log *slog.Logger) error {
	select {
	case <-ended:
		return result()
	case <-w.end:
	}
	_ = signalGroup(group, syscall.SIGTERM) // it may have ended already
	patience := time.NewTimer(w.d.config.Drain)
	defer patience.Stop()
	select {
	case <-ended:
		return result()
	case <-patience.C:
		log.Warn("a worker exceeds its drain timeout and is killed", "after", w.d.config.Drain)
	case <-w.d.kill:
		log.Warn("a worker is killed because the time for the shutdown is over")
	}
	_ = signalGroup(group, syscall.SIGKILL)
	<-ended
	return result()
}

// howItEnded describes how a process ended.
func howItEnded(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "exit status 0"
	case errors.Is(err, exec.ErrWaitDelay):
		return "exit status 0, leaving processes behind"
	case !ok:
		return err.Error()
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("signal: %v", status.Signal())
	}
	return exit.Error()
}
