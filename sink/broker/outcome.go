package broker

import (
	"strings"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

// Done is the outcome of a confirmed message.
var Done = rouse.Outcome{Verdict: rouse.Done}

// Failed is the outcome of an attempt that may be retried; code is the broker's, 0 if it gave none.
func Failed(code int, detail string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Failed, Code: code, Detail: printableDetail(detail)}
}

// Rejected is the outcome of a message that the broker would never accept.
func Rejected(code int, detail string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Rejected, Code: code, Detail: printableDetail(detail)}
}

// Unsent is the outcome of a message that was not sent because its broker is unavailable: it spends no
// attempt.
func Unsent(after time.Duration, why string) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBrokerUnavailable, After: after,
		Detail: printableDetail("not sent: " + why)}
}

// Overloaded is the outcome of a message that was not sent because too many others are in progress.
func Overloaded(after time.Duration, why string) rouse.Outcome {
	o := Unsent(after, why)
	o.Cause = rouse.CauseBacklog
	return o
}

// Soon is the delay after a temporary condition, such as a channel that was just closed.
const Soon = 100 * time.Millisecond

// crowded is the delay while too many messages are in progress.
const crowded = time.Second

// stopping is the outcome of attempts that are interrupted by a shutdown. As after a crash they may have
// arrived, and the same attempt is repeated.
var stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond,
	Detail: "broken off: the server is stopping"}

// printableDetail returns text in a form that fits a record: shortened, on one line.
func printableDetail(s string) string {
	return rouse.Shorten(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, rouse.Shorten(s, 2*rouse.MaxDetail))), rouse.MaxDetail)
}
