package main

import (
	"maps"
	"slices"

	"github.com/rousehq/rouse"
)

// presets are sets of values for settings that go together. What is given otherwise, by a flag, a variable or the file, counts
// before them.
var presets = map[string]map[string]string{
	// The values of a small demonstration of claims by leases: each poll takes a handful of timers that come due before the one
	// after the next, and holds them much longer than that. What is created within that time stays where it was created.
	"demo-lease": {"strategy": "lease", "poll": "2.5s", "ahead": "5s", "hold": "30s", "claim-batch": "2", "scatter": "false"},
}

// usePreset sets what the preset says, if there is one, where nothing else has said anything.
func (c *inForce) usePreset() []rouse.Problem {
	if c.Preset == "" {
		return nil
	}
	values, ok := presets[c.Preset]
	if !ok {
		return []rouse.Problem{{Field: c.named("preset"), Value: rouse.Shorten(c.Preset, 128), Wrong: "is no preset",
			Cure: meant(c.Preset, slices.Sorted(maps.Keys(presets)))}}
	}
	settings := c.settings()
	for name, text := range values {
		if c.source[name] == "default" {
			_ = find(settings, name).Parse(text) // a test parses them all
			c.source[name] = "preset " + c.Preset
		}
	}
	return nil
}

// named is a setting with where it comes from, for problems with it.
func (c *inForce) named(setting string) string {
	if from := c.source[setting]; from != "default" && from != "flag" && from != "" {
		return from + ": " + setting
	}
	return setting
}
