package config

import (
	"testing"
	"time"
)

// TestPresetsAreValid keeps the values of presets to what the settings take, together.
func TestPresetsAreValid(t *testing.T) {
	for name, values := range presets {
		var f Flags
		settings := f.ConfigSettings()
		for _, s := range settings {
			if err := s.Parse(s.Default); err != nil {
				t.Fatal(err)
			}
		}
		f.Preset = name
		in, err := f.LoadConfig(map[string]bool{"preset": true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for setting, text := range values {
			s := FindSetting(in.ConfigSettings(), setting)
			if s == nil {
				t.Errorf("%s: %s is no setting", name, setting)
			} else if got := s.Text(); got != text || in.Source[setting] != "preset "+name {
				t.Errorf("%s: %s is %q from %s, not %q", name, setting, got, in.Source[setting], text)
			}
		}
	}
}

// TestTheLeasePreset has the values that it is known for.
func TestTheLeasePreset(t *testing.T) {
	f := Flags{}
	for _, s := range f.ConfigSettings() {
		_ = s.Parse(s.Default) // TestDefaultsAreWhatTheirTextsSay
	}
	f.Preset, f.Hold = "demo-lease", time.Minute
	in, err := f.LoadConfig(map[string]bool{"preset": true, "hold": true})
	if err != nil {
		t.Fatal(err)
	}
	c := in.NodeConfig()
	if c.Strategy != "lease" || c.Poll != 2500*time.Millisecond || c.Ahead != 5*time.Second || c.ClaimBatch != 2 || c.Scatter {
		t.Errorf("%+v", c)
	}
	if c.Hold != time.Minute || in.Source["hold"] != "flag" {
		t.Errorf("the flag does not count before the preset: %v from %s", c.Hold, in.Source["hold"])
	}
}
