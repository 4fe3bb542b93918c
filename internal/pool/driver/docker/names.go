package docker

import (
	"crypto/rand"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// The labels of workers. The first two identify the containers of this pool on an engine; the name of a
// container only marks whether it drains.
const (
	labelPrefix   = "rouse."
	labelInstance = labelPrefix + "instance"
	labelPool     = labelPrefix + "pool"
	labelKey      = labelPrefix + "key"       // in full, encoded by pool.Encode: keys may contain any bytes
	labelOf       = labelPrefix + "namespace" // of the group, if it is one of a namespace
	labelWorker   = labelPrefix + "worker"
	labelSlot     = labelPrefix + "slot"
	labelStarts   = labelPrefix + "starts"
	labelFailures = labelPrefix + "failures"
	labelLastExit = labelPrefix + "last-exit"
	labelSpec     = labelPrefix + "spec"
)

// keyName encodes a key so that it can be decoded at any length.
func keyName(key string) string { return pool.Encode(key, max(80, 3*len(key))) }

func (d *Driver) containerLabels(s *spec, l life) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, d.config.Labels)
	maps.Copy(labels, map[string]string{labelInstance: d.config.Instance, labelPool: d.config.Pool,
		labelKey: keyName(s.key), labelWorker: l.workerID(d.config.Pool),
		labelSlot: l.slot, labelStarts: strconv.Itoa(l.number), labelFailures: strconv.Itoa(l.failures),
		labelLastExit: l.lastExit, labelSpec: s.hash})
	if namespace, _ := driver.SplitGroup(s.key); namespace != "" {
		labels[labelOf] = namespace
	}
	return labels
}

// newSlot returns a unique name for a worker.
func newSlot() string { return strings.ToLower(rand.Text()[:12]) }

// longestKeyPart is the length of the part of a key in the name of a container, which is there for readers
// only.
const longestKeyPart = 40

// containerName returns a name that is unique for a slot and number, so that one of two managers that replace
// the same container at the same time fails.
func (c *Config) containerName(key string, l life) string {
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, key)
	return c.Instance + "-" + c.Pool + "-" + readable[:min(len(readable), longestKeyPart)] + "-" + l.slot + "." +
		strconv.Itoa(l.number)
}

// drainMark precedes, at the end of the name of a draining container, the time when it was asked to end, in
// milliseconds of Unix time. The name is the part of a container that can be changed, so other managers can
// read the mark.
const drainMark = ".draining-"

func drainName(name string, since time.Time) string {
	return name + drainMark + strconv.FormatInt(since.UnixMilli(), 10)
}

// drainedSince returns since when a container drains according to its name.
func drainedSince(name string) (time.Time, bool) {
	i := strings.LastIndex(name, drainMark)
	if i < 0 {
		return time.Time{}, false
	}
	at, err := strconv.ParseInt(name[i+len(drainMark):], 10, 64)
	return time.UnixMilli(at), err == nil
}

// box is a container as listed by the engine.
type box struct {
	id    string // the engine's
	name  string
	key   string
	spec  string
	state container.ContainerState
	made  time.Time // with a precision of seconds
	life  life

	draining bool
	asked    time.Time // when it was asked to drain
}

// boxFromSummary converts a container summary of the engine. Only this driver writes the labels; a missing
// number counts as zero.
func (d *Driver) boxFromSummary(s container.Summary) (b box, ok bool) {
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

// hasStopped reports whether the container is stopped, and the engine is not going to restart it.
func (b *box) hasStopped() bool {
	switch b.state {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return false
	}
	return true
}
