package front

import (
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

// TestWhatIsWithheld: while the index is away, or being filled, what is not served is what a claim leaves
// out.
func TestWhatIsWithheld(t *testing.T) {
	const all, none = 0, rouse.MaxCriticality + 1
	for name, of := range map[string]struct {
		least uint8 // Options.Criticality
		at    stand
		from  uint8 // lowest criticality that is served
		why   string
	}{
		"away":                          {5, stand{}, 5, "unavailable"},
		"away, and all are served":      {0, stand{}, all, ""},
		"there":                         {5, stand{id: 1}, all, ""},
		"filled down to 7":              {5, stand{id: 1, level: 7}, 5, "being filled"},
		"filled down to 3":              {5, stand{id: 1, level: 3}, 3, "being filled"},
		"away, and nothing is critical": {none, stand{}, none, "unavailable"},
	} {
		s := &Store{o: Options{Criticality: of.least}}
		s.state.at = of.at
		for c := range uint8(none) {
			why := s.Withheld(&rouse.Spec{Criticality: c})
			if (why == "") != (c >= of.from) || why != "" && !strings.Contains(why, of.why) {
				t.Errorf("%s: criticality %d: %q", name, c, why)
			}
		}
	}
}
