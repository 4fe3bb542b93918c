package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

var crontabLosses = []string{
	"CRON_TZ is obeyed by cronie; Debian's cron ignores it and reads all lines in the zone of its machine.",
	"cron does not know what it missed while it was down, starts a command although an earlier one still runs, and does not repeat one that failed.",
	"curl sends no signature, no fire id and no CloudEvents headers.",
}

const (
	maxCronCommand   = 998 // bytes of a command that every cron takes
	maxCronVariables = 256 // that are set in one file
)

// unwritable matches texts that a command cannot have: there, cron takes the percent sign or the end of the
// line for something else.
var unwritable = regexp.MustCompile(`\\[%\n]`)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func writeCrontab(w *Writer, x *outgoingTimer) error {
	times, err := x.s.Translate("")
	if err != nil {
		return err
	}
	var line string
	if x.command, err = commandIn(x.spec); err == nil {
		x.carryPayload("a command, which cron runs")
		if x.User != "" {
			x.addLossNote("the user %s is lost: put the line into the crontab of that user.", x.User)
		}
		if unwritable.MatchString(x.Command + x.Stdin) {
			return rouse.Refuse("payload", x.Command, "has a backslash before a percent sign or the end of a line",
				"put the command into a script")
		}
		line = strings.ReplaceAll(x.Command, "%", `\%`)
		if x.Stdin != "" {
			line += "%" + strings.ReplaceAll(strings.ReplaceAll(x.Stdin, "%", `\%`), "\n", "%")
		}
	} else {
		if x.Command, err = curlCommand(x); err != nil {
			return err
		}
		line = strings.ReplaceAll(x.Command, "%", `\%`)
	}
	switch {
	case strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }),
		!utf8.ValidString(line):
		return rouse.Refuse("payload", "", "has the end of a line, or no text", "put the command into a script")
	case len(line) > maxCronCommand:
		return rouse.Refuse("payload", "", fmt.Sprintf("makes a command of %d bytes", len(line)),
			fmt.Sprintf("use at most %d, or put the command into a script", maxCronCommand))
	}
	settings, err := w.cronSettings(x)
	if err != nil {
		return err
	}
	line = times + " " + line + "\n"
	x.alone = "CRON_TZ=" + x.zoneOrUTC() + "\n" + w.cronVariables(w.variables) + settings + line
	if x.t.Paused {
		line = "#" + line
		x.addLossNote("it is paused: its line is a comment.")
	}
	x.text = "# " + x.t.Key.Name + "\n" + settings + line
	x.verify = func(back *rouse.Spec) error {
		got, err := commandIn(back)
		if err != nil || got.Command != x.Command || got.Stdin != x.Stdin {
			return rouse.Refuse("payload", "", "would come back as another command", "put the command into a script")
		}
		for _, name := range slices.Sorted(maps.Keys(got.Environment)) {
			if value, ok := x.Environment[name]; !ok {
				x.addLossNote("it gets the variable %s of lines above.", name)
			} else if value != got.Environment[name] {
				return rouse.Refuse("payload", value, "has a variable that would come back with another value",
					"set it in a script")
			}
		}
		if len(got.Environment) < len(x.Environment) {
			return rouse.Refuse("payload", "", "has a variable that a crontab cannot set", "set it in a script")
		}
		return nil
	}
	return nil
}

// commandIn returns the command that a payload is.
func commandIn(s *rouse.Spec) (run command, err error) {
	d := json.NewDecoder(bytes.NewReader(s.Payload))
	d.DisallowUnknownFields()
	if err = d.Decode(&run); err == nil && run.Command == "" {
		err = rouse.Refuse("payload", "", "has no command", "give one")
	}
	if err != nil {
		return command{}, err
	}
	return run, nil
}

// curlCommand returns the call of a target for a shell.
func curlCommand(x *outgoingTimer) (string, error) {
	if json.Valid(x.spec.Payload) { // on one line
		var out bytes.Buffer
		_ = json.Compact(&out, x.spec.Payload)
		spec := *x.spec
		spec.Payload = out.Bytes()
		x.spec = &spec
	}
	args, err := x.curlArguments()
	if err != nil {
		return "", err
	}
	for i, arg := range args {
		if !plainWord.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
			args[i] = strings.ReplaceAll(arg, `\%`, `\''%`) // before a percent sign cron takes the backslash for its own
		}
	}
	return "curl " + strings.Join(args, " "), nil
}

// cronSettings returns the lines that have to come before that of a timer: its zone, if the one before had
// another, and the variables of its command.
func (w *Writer) cronSettings(x *outgoingTimer) (string, error) {
	var out strings.Builder
	if x.zoneOrUTC() != w.zone {
		fmt.Fprintf(&out, "CRON_TZ=%s\n", x.zoneOrUTC())
	}
	changed := map[string]string{}
	for name, value := range x.Environment {
		if was, ok := w.variables[name]; !ok || was != value {
			changed[name] = value
		}
		if name == "CRON_TZ" || strings.ContainsFunc(value, unicode.IsControl) {
			return "", rouse.Refuse("payload", name, "is a variable that a crontab cannot set", "set it in a script")
		}
	}
	if len(w.variables)+len(changed) > maxCronVariables {
		return "", rouse.Refuse("payload", "", "has too many variables",
			fmt.Sprintf("use at most %d in one file", maxCronVariables))
	}
	out.WriteString(w.cronVariables(changed))
	x.written = func() {
		w.zone = x.zoneOrUTC()
		maps.Copy(w.variables, changed)
	}
	return out.String(), nil
}

// cronVariables returns lines that set variables.
func (w *Writer) cronVariables(values map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		quote := `"`
		if strings.Contains(values[name], quote) {
			quote = "'"
		}
		out.WriteString(name + "=" + quote + values[name] + quote + "\n")
	}
	return out.String()
}
