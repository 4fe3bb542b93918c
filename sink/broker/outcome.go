package broker

import (
	"strings"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

// Done is the outcome of a message that its broker has confirmed.
var Done = rouse.Outcome{Verdict: rouse.Done}

// Failed is the outcome of an attempt after which another may succeed; code is the broker's, 0 if it gave none.
func Failed(code int, detail string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Failed, Code: code, Detail: printable(detail)}
}

// Rejected is the outcome of a message that the broker would never take.
func Rejected(code int, detail string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Rejected, Code: code, Detail: printable(detail)}
}

// Unsent is the outcome of a message that was not sent as its broker cannot be reached, or does not take it now: it spends no attempt.
func Unsent(after time.Duration, why string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBrokerUnavailable, After: after, Detail: printable("not sent: " + why)}
}

// Crowded is the outcome of a message that was not sent as others are under way.
func Crowded(after time.Duration, why string) rouse.Outcome {
	o := Unsent(after, why)
	o.Cause = rouse.CauseBacklog
	return o
}

// Soon is when to look again after something that passes at once, such as a channel that was just closed.
const Soon = 100 * time.Millisecond

// crowded is when to look again while too many messages are under way.
const crowded = time.Second

// stopping is the outcome of attempts that the server's end breaks off. They may have arrived, as when the server crashes, and like
// then the same attempt is made again.
var stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond, Detail: "broken off: the server is stopping"}

// printable returns text that fits a record: shortened, on one line.
func printable(s string) string {
	return rouse.Shorten(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, rouse.Shorten(s, 2*rouse.MaxDetail))), rouse.MaxDetail)
}
