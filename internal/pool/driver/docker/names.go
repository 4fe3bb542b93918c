package docker

import (
	"crypto/rand"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/rousehq/rouse/internal/pool"
)

// The labels of workers. Those that are ours on an engine are told by the first two alone; what a container is called counts only
// for whether it drains.
const (
	labelPrefix   = "rouse."
	labelInstance = labelPrefix + "instance"
	labelPool     = labelPrefix + "pool"
	labelKey      = labelPrefix + "key" // as pool.Encode writes it, whole: keys may have any bytes
	labelWorker   = labelPrefix + "worker"
	labelSlot     = labelPrefix + "slot"
	labelStarts   = labelPrefix + "starts"
	labelFailures = labelPrefix + "failures"
	labelLastExit = labelPrefix + "last-exit"
	labelSpec     = labelPrefix + "spec"
)

// keyName writes a key so that it can be read back, however long it is.
func keyName(key string) string { return pool.Encode(key, max(80, 3*len(key))) }

func (d *Driver) labels(s *spec, l life) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, d.config.Labels)
	maps.Copy(labels, map[string]string{labelInstance: d.config.Instance, labelPool: d.config.Pool, labelKey: keyName(s.key), labelWorker: l.id(d.config.Pool),
		labelSlot: l.slot, labelStarts: strconv.Itoa(l.number), labelFailures: strconv.Itoa(l.failures), labelLastExit: l.lastExit, labelSpec: s.hash})
	return labels
}

// newSlot names a worker that no other is named like.
func newSlot() string { return strings.ToLower(rand.Text()[:12]) }

// longestKeyPart is how much of a key is in the name of a container, where it is only for people to read.
const longestKeyPart = 40

// containerName is unique for its slot and number. So of two managers that replace the same container at the same time, one fails.
func (c *Config) containerName(key string, l life) string {
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, key)
	return c.Instance + "-" + c.Pool + "-" + readable[:min(len(readable), longestKeyPart)] + "-" + l.slot + "." + strconv.Itoa(l.number)
}

// drainMark ends the name of a container that was asked to end, before the time when it was, in milliseconds of Unix time. A name is what
// can be changed of a container: so a manager knows what another one has asked for.
const drainMark = ".draining-"

func drainName(name string, since time.Time) string {
	return name + drainMark + strconv.FormatInt(since.UnixMilli(), 10)
}

// drainedSince returns since when a container drains by its name, if it does.
func drainedSince(name string) (time.Time, bool) {
	i := strings.LastIndex(name, drainMark)
	if i < 0 {
		return time.Time{}, false
	}
	at, err := strconv.ParseInt(name[i+len(drainMark):], 10, 64)
	return time.UnixMilli(at), err == nil
}

// box is a container that the engine tells of.
type box struct {
	id    string // the engine's
	name  string
	key   string
	spec  string
	state container.ContainerState
	made  time.Time // to the second
	life  life

	draining bool
	asked    time.Time // to drain
}

// box reads what the engine tells of one of our containers. Labels are written by nobody else; what is missing in them counts as zero.
func (d *Driver) box(s container.Summary) (b box, ok bool) {
	b = box{id: s.ID, spec: s.Labels[labelSpec], state: s.State, made: time.Unix(s.Created, 0)}
	if len(s.Names) > 0 {
		b.name = strings.TrimPrefix(s.Names[0], "/")
	}
	if b.key, ok = pool.Decode(s.Labels[labelKey]); !ok {
		return b, false
	}
	b.life = life{slot: s.Labels[labelSlot], lastExit: s.Labels[labelLastExit]}
	b.life.number, _ = strconv.Atoi(s.Labels[labelStarts])
	b.life.failures, _ = strconv.Atoi(s.Labels[labelFailures])
	b.asked, b.draining = drainedSince(b.name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, is := d.draining[b.id]; is {
		b.asked, b.draining = m.since, true
	}
	return b, true
}

// over reports whether the container does not run, and is not about to by the engine's own doing.
func (b *box) over() bool {
	switch b.state {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return false
	}
	return true
}
