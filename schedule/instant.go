package schedule

import (
	"strings"

	"github.com/rousehq/rouse"
)

// instantLike reports whether a text begins as an instant does, with four digits and a hyphen. No cron
// expression does, as its numbers have at most two digits.
func instantLike(s string) bool {
	return len(s) > 4 && s[4] == '-' && isAllDigits(s[:4])
}

func isAllDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0
}

func parseInstant(expr string, o Options) (rouse.Schedule, error) {
	at, err := readInstant(expr, expr)
	if err != nil {
		return nil, err
	}
	if o.Timezone != "" {
		return nil, refuseZone(o, "an instant")
	}
	return once(at), nil
}

// instantOf is Parse for an instant without options.
func instantOf(expr string) (rouse.Schedule, error) {
	at, err := readInstant(expr, expr)
	if err != nil {
		return nil, err
	}
	return &Schedule{strings.Clone(expr), once(at), true}, nil
}

// readInstant reads an instant, the whole of expr or a part of it.
func readInstant(s, expr string) (rouse.Instant, error) {
	at, err := rouse.ParseInstant(s)
	return at, asScheduleError(expr, err)
}
