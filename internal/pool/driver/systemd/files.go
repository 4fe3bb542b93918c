package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// files is the directory that records the wanted workers. Together with the units it outlives this process.
//
//	core-42-1.env    the worker is wanted; the variables that its unit reads whenever it starts
//	core-42-1.drain  it was asked to end, at the time in it. The other file stays until the unit has ended
//	core.lock        has a shared lock of each process that manages the workers of the pool
type files struct {
	dir   string
	names names
	keys  map[string]string // keys of instances whose files were read
	lock  *os.File          // nil while this process does not look after the workers
}

// entry is the record of a worker in the directory.
type entry struct {
	instance string
	key      string
	number   int
	asked    time.Time // when it was asked to end; zero if it was not
}

// header is the start of the first line of a worker's file, before the key.
const header = "# a worker of rouse: "

// partial is the prefix of the names of files being written.
const partial = ".part-"

func (f *files) envFilePath(instance string) string   { return filepath.Join(f.dir, instance+".env") }
func (f *files) drainMarkPath(instance string) string { return filepath.Join(f.dir, instance+".drain") }

// listEntries returns the records of the instances whose names have a prefix, sorted by name.
func (f *files) listEntries(prefix string) ([]entry, error) {
	there, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []entry
	keys := map[string]string{}
	for _, one := range there {
		instance, ok := strings.CutSuffix(one.Name(), ".env")
		if !ok || !strings.HasPrefix(instance, prefix) {
			continue
		}
		e := entry{instance: instance}
		if e.key, ok = f.keyOfInstance(instance); !ok {
			continue
		}
		if e.number, err = strconv.Atoi(instance[strings.LastIndexByte(instance, '-')+1:]); err != nil ||
			f.names.instanceName(e.key, e.number) != instance {
			continue // not a worker's file
		}
		if e.asked, err = f.drainAskedAt(instance); err != nil {
			return nil, err
		}
		list = append(list, e)
		keys[instance] = e.key
	}
	if prefix == f.names.poolPrefix() {
		f.keys = keys
	} else {
		maps.Copy(f.keys, keys)
	}
	return list, nil
}

// keyOfInstance returns the key of an instance, if its file is a worker's. The key in a file never changes.
func (f *files) keyOfInstance(instance string) (string, bool) {
	if key, ok := f.keys[instance]; ok {
		return key, true
	}
	file, err := os.Open(f.envFilePath(instance))
	if err != nil {
		return "", false // it was removed
	}
	defer file.Close() //nolint:errcheck // it was only read
	line, err := bufio.NewReader(io.LimitReader(file, 1<<20)).ReadString('\n')
	name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), header)
	pool, name, cut := strings.Cut(name, "/")
	if err != nil || !ok || !cut || pool != f.names.pool {
		return "", false
	}
	return decodeName(name)
}

// drainAskedAt returns when a worker was asked to end.
func (f *files) drainAskedAt(instance string) (time.Time, error) {
	body, err := os.ReadFile(f.drainMarkPath(instance))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(body)))
	if err != nil { // the machine crashed during a write, and the directory is not in memory
		at = time.Now()
	}
	return at, nil
}

// envFileBody returns the content of the file of a worker.
func (f *files) envFileBody(instance, key string, vars map[string]string) string {
	vars = maps.Clone(vars)
	if vars == nil {
		vars = map[string]string{}
	}
	vars["WORKER_ID"] = instance // unless the unit sets another one at each start
	return header + f.names.pool + "/" + encodeName(key) + "\n" + formatVariables(vars)
}

// recordWanted records that a worker should run, with its variables.
func (f *files) recordWanted(instance, key string, vars map[string]string) error {
	if err := f.prepareDir(); err != nil {
		return err
	}
	if err := os.Remove(f.drainMarkPath(instance)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of an earlier worker: a process was killed while it removed its files
	}
	return f.writeAtomically(f.envFilePath(instance), f.envFileBody(instance, key, vars))
}

// hasVariables reports whether a worker has the desired variables.
func (f *files) hasVariables(instance, key string, vars map[string]string) bool {
	body, err := os.ReadFile(f.envFilePath(instance))
	return err != nil || string(body) == f.envFileBody(instance, key, vars)
}

// recordDrain records that a worker was asked to end.
func (f *files) recordDrain(instance string, at time.Time) error {
	return f.writeAtomically(f.drainMarkPath(instance), at.Format(time.RFC3339Nano)+"\n")
}

// removeFiles removes the files of a worker that has ended permanently. It removes the mark last, because the
// other file without the mark means that the worker should run.
func (f *files) removeFiles(instance string) error {
	for _, name := range []string{f.envFilePath(instance), f.drainMarkPath(instance)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeAtomically writes a file atomically, readable only for this user.
func (f *files) writeAtomically(name, body string) error {
	file, err := os.CreateTemp(f.dir, partial+"*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(body)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// prepareDir creates the directory. It must not be writable for others: they could make workers run anything.
func (f *files) prepareDir() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf(
			"make the directory for the variables of workers: %w; let this user have %s, or set dir to another one", err, f.dir)
	}
	info, err := os.Stat(f.dir)
	if err != nil {
		return err
	}
	if user, ok := fileOwner(info); ok && (user != os.Geteuid() || info.Mode().Perm()&0o022 != 0) {
		return fmt.Errorf(
			"the directory %s for the variables of workers may be written to by others (it has mode %v and user %d): "+
				"make it this user's own, with mode 0700", f.dir, info.Mode().Perm(), user)
	}
	return nil
}

// lockAsLeader marks this process as the one that manages the workers.
func (f *files) lockAsLeader() error {
	if err := f.prepareDir(); err != nil {
		return err
	}
	file, err := f.openLocked(shared)
	if errors.Is(err, errLocked) {
		return errors.New("another process is releasing the workers of the pool")
	}
	if err != nil {
		return err
	}
	f.lock = file
	return f.removePartials()
}

// removePartials removes partial files of processes that were killed. No write takes a minute.
func (f *files) removePartials() error {
	there, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, one := range there {
		if info, err := one.Info(); err == nil && strings.HasPrefix(one.Name(), partial) &&
			time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(filepath.Join(f.dir, one.Name())) // another process may have removed it
		}
	}
	return nil
}

// openLocked opens the lock file and locks it.
func (f *files) openLocked(how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(f.dir, f.names.pool+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = lockFile(file, how)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// releaseLock removes the mark of this process.
func (f *files) releaseLock() {
	if f.lock != nil {
		_ = f.lock.Close() // also unlocks it
		f.lock = nil
	}
}

// ifUnmanaged calls do if no other process of this machine manages the workers.
func (f *files) ifUnmanaged(do func() error) error {
	file, err := f.openLocked(exclusive)
	if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil // another process manages them, or no worker was ever started
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), file.Close())
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// formatVariables formats variables for systemd. It omits values that are not UTF-8 or contain a NUL, because
// systemd would refuse the whole file.
func formatVariables(vars map[string]string) string {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		value := vars[name]
		if variableName.MatchString(name) && utf8.ValidString(value) && !strings.Contains(value, "\x00") {
			b.WriteString(name + `="` + quote.Replace(value) + "\"\n")
		}
	}
	return b.String()
}
