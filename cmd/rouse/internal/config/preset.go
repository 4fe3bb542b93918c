package config

import (
	"maps"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// presets are sets of values for related settings. Flags, variables and the file override them.
var presets = map[string]map[string]string{
	// Values for a small demonstration of claims by leases: each poll takes a few timers that come due
	// before the next but one, and holds them much longer than that. Timers created within that time stay
	// at the node that created them.
	"demo-lease": {"strategy": "lease", "poll": "2.5s", "ahead": "5s", "hold": "30s", "claim-batch": "2",
		"scatter": "false"},
}

// usePreset applies the preset, if there is one, to settings that are not set otherwise.
func (c *Loaded) usePreset() []rouse.Problem {
	if c.Preset == "" {
		return nil
	}
	values, ok := presets[c.Preset]
	if !ok {
		return []rouse.Problem{{Field: c.settingWithSource("preset"), Value: rouse.Shorten(c.Preset, 128),
			Wrong: "is no preset",
			Cure:  cli.SuggestName(c.Preset, slices.Sorted(maps.Keys(presets)))}}
	}
	settings := c.ConfigSettings()
	for name, text := range values {
		if c.Source[name] == "default" {
			_ = FindSetting(settings, name).Parse(text) // a test parses them all
			c.Source[name] = "preset " + c.Preset
		}
	}
	return nil
}

// settingWithSource is a setting with its source, for problems.
func (c *Loaded) settingWithSource(setting string) string {
	if from := c.Source[setting]; from != "default" && from != "flag" && from != "" {
		return from + ": " + setting
	}
	return setting
}
