package schedule

import (
	"time"

	"github.com/rousehq/rouse"
)

// instantLike says whether a text begins as an instant does, with four digits and a hyphen. No cron expression does, as its
// numbers have at most two digits.
func instantLike(s string) bool {
	return len(s) > 4 && s[4] == '-' && digits(s[:4])
}

func digits(s string) bool {
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

// readInstant reads an RFC 3339 instant, the whole of expr or a part of it. It is stricter than package time, which lets
// hours of one digit and commas pass.
func readInstant(s, expr string) (rouse.Instant, error) {
	const cure = "give an instant such as 2027-01-31T09:00:00Z or 2027-01-31T09:00:00.250+01:00"
	if fault := instantFault(s); fault != "" {
		return 0, refuse(expr, fault, cure)
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, refuse(expr, "names a date or a time of day that does not exist", cure)
	}
	at := rouse.At(t)
	if at < rouse.MinInstant || at > rouse.MaxInstant {
		return 0, refuse(expr, "lies outside the years 2000 to 9998", "give a time between them")
	}
	return at, nil
}

// instantFault says what keeps a text from having the shape YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm), or nothing. Whether
// the numbers make a time is not looked at.
func instantFault(s string) string {
	const shape = "0000-00-00T00:00:00"
	for i := range len(shape) {
		if i == len(s) {
			if i == len("0000-00-00") {
				return "is a date without a time of day"
			}
			return "is no RFC 3339 instant: it ends too early"
		}
		switch c := s[i]; {
		case shape[i] == '0' && (c < '0' || c > '9'), shape[i] != '0' && c != shape[i]:
			return "is no RFC 3339 instant from " + quote(s[i:]) + " on"
		}
	}
	rest := s[len(shape):]
	if rest != "" && rest[0] == '.' {
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 1 || n > 10 {
			return "is no RFC 3339 instant: a fraction of a second has one to nine digits"
		}
		rest = rest[n:]
	}
	switch {
	case rest == "":
		return "has no offset from UTC"
	case rest == "Z":
		return ""
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && digits(rest[1:3]) && rest[3] == ':' && digits(rest[4:]) &&
		rest[1:3] < "24" && rest[4:] < "60":
		return ""
	}
	return "is no RFC 3339 instant from " + quote(rest) + " on"
}
