package pool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// Operations on a group, by its name. They fail with rouse.ErrUnavailable in a process that does not lead the
// pool.

// requireTerm returns the current term.
func (m *Manager) requireTerm() (*Term, error) {
	if t := m.currentTerm(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("pool %s: %w: this process does not lead it", m.config.Name, rouse.ErrUnavailable)
}

// leadingGroup returns the current term, and the group with a name.
func (m *Manager) leadingGroup(name string) (t *Term, group string, err error) {
	if t, err = m.requireTerm(); err == nil {
		group, err = m.config.ParseGroup(name)
	}
	return t, group, err
}

func (m *Manager) noGroup(name string) error {
	return fmt.Errorf("pool %s has no group of the key %q here: %w", m.config.Name, rouse.Shorten(name, 64),
		rouse.ErrNotFound)
}

// Stop ends the group of a key as if it had been idle for long: its workers finish their requests, and the
// key is unpinned. A request in its queue, or a new one, starts the group again.
func (m *Manager) Stop(name string) error {
	t, key, err := m.leadingGroup(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.pinned, key)
	m.mu.Unlock()
	found := false
	t.tracker.changeTracker(func(tracker *Tracker, now time.Time) { found = tracker.Stop(now, key) })
	if !found {
		return m.noGroup(name)
	}
	m.log.Info("the group of a key is stopped on request", "key", name)
	return nil
}

// Restart replaces the workers of a key: existing ones finish their requests, new ones are started.
func (m *Manager) Restart(name string) error {
	t, key, err := m.leadingGroup(name)
	if err != nil {
		return err
	}
	if !t.tracker.hasGroup(key) {
		return m.noGroup(name)
	}
	m.log.Info("the workers of a key are replaced on request", "key", name)
	t.groups.markStalled(key)
	return nil
}

// Pin keeps the group of a key Active, even without requests, until it is unpinned or stopped, or this
// process ends.
func (m *Manager) Pin(name string, on bool) error {
	t, key, err := m.leadingGroup(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case on && len(m.pinned) >= maxPinned && !m.pinned[key]:
		return fmt.Errorf("pool %s: %d keys are pinned, which is the most: %w", m.config.Name, maxPinned, rouse.ErrFull)
	case on:
		m.pinned[key] = true
	default:
		delete(m.pinned, key)
	}
	t.tracker.changeTracker(func(tracker *Tracker, now time.Time) { tracker.Pin(now, key, on) })
	m.log.Info("the pin of the group of a key was changed on request", "key", name, "pinned", on)
	return nil
}

// pinnedKeys returns the pinned keys. The caller holds the mutex.
func (m *Manager) pinnedKeys() []string { return slices.Sorted(maps.Keys(m.pinned)) }
