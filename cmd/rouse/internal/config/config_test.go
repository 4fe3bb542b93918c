package config

import (
	"testing"

	_ "github.com/rousehq/rouse/node/all" // whose parts have settings
)

// TestDefaultsAreWhatTheirTextsSay keeps the defaults in the tags valid, and readable as their printed form.
func TestDefaultsAreWhatTheirTextsSay(t *testing.T) {
	var c Config
	for _, s := range c.ConfigSettings() {
		if err := s.Parse(s.Default); err != nil {
			t.Errorf("default of %s: %v", s.Name, err)
		}
		if got := s.Text(); got != s.Default {
			t.Errorf("default of %s is %q and prints as %q", s.Name, s.Default, got)
		}
	}
	if problems := c.validateSettings(); len(problems) > 0 {
		t.Errorf("the defaults are refused: %v", problems)
	}
}
