package config

import (
	"os"
	"strings"
	"testing"
)

// TestWhatZeroMeans sets each number and duration to 0: those that take it are in the table of
// configuration.md that shows what it means, and no others are.
func TestWhatZeroMeans(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| 0 of | means |")
	table, _, _ = strings.Cut(table, "\n\n")
	count := 0
	for i := range (&Config{}).ConfigSettings() {
		var c Config
		for _, s := range c.ConfigSettings() {
			if err := s.Parse(s.Default); s.Default != "" && err != nil {
				t.Fatal(s.Name, err)
			}
		}
		c.DaprListen, c.Reminders = "127.0.0.1:0", true // their settings are looked at then
		s := c.ConfigSettings()[i]
		if k := s.Kind(); k != "a whole number" && k != "a number" && !strings.HasPrefix(k, "a duration") && !strings.HasPrefix(k, "a size") {
			continue
		}
		count++
		before := len(c.validateSettings())
		if err := s.Parse("0"); err != nil {
			t.Fatal(s.Name, err)
		}
		taken, documented := len(c.validateSettings()) <= before, strings.Contains(table, "`"+s.Name+"`")
		if taken != documented {
			t.Errorf("%s: 0 is taken: %v, and in the table: %v", s.Name, taken, documented)
		}
	}
	if count < 20 {
		t.Errorf("%d settings are numbers", count)
	}
}
