package foreign

import (
	"cmp"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

var cronNotes = []string{
	"cron runs a command; rouse calls a target, which gets the command as JSON: {\"command\": …, \"stdin\": …, \"environment\": {…}}.",
	"cron does not know what it missed while it was down; rouse fires the latest missed occurrence, late. Change it with misfire: skip.",
	"cron starts a command although an earlier one still runs, and so do these timers: overlap is allow.",
	"cron mails the output; here the answer of the target decides: an error is retried, then a dead letter is left.",
}

// command is the payload of an entry of a crontab.
type command struct {
	Command     string            `json:"command"`
	Stdin       string            `json:"stdin,omitempty"`
	User        string            `json:"user,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// readCrontab returns a function that reads a crontab as crontab(5) describes it: that of a user, or of the
// system, which has the user after the times.
func readCrontab(system bool) func(in []byte, o *Options) ([]Entry, error) {
	return func(in []byte, o *Options) ([]Entry, error) {
		c := crontab{system: system, o: o, zone: o.Timezone, usual: o.Timezone, environment: map[string]string{}}
		for number, line := range strings.Split(string(in), "\n") {
			c.readCrontabLine(number+1, strings.TrimSpace(line))
		}
		c.nameEntries()
		return c.entries, nil
	}
}

type crontab struct {
	system      bool
	o           *Options
	zone        string
	usual       string // the zone of lines for which the file names none
	zoned       bool   // the file names the zone
	environment map[string]string
	entries     []Entry
	commands    []command // of the entries
}

func (c *crontab) readCrontabLine(number int, line string) {
	if line == "" || line[0] == '#' || c.readVariable(line) {
		return
	}
	e := Entry{Line: number}
	if rest, quiet := strings.CutPrefix(line, "-"); quiet { // cronie: it is not logged
		line = rest
	}
	fields := 5
	if strings.HasPrefix(line, "@") {
		fields = 1
	}
	times, rest := cutFields(line, fields)
	run := command{Environment: c.environment}
	if c.system {
		run.User, rest = cutFields(rest, 1)
	}
	flags, rest := cutFlags(rest)
	run.Command, run.Stdin = splitCommand(rest)
	e.Spec = rouse.Spec{Schedule: narrowSteps(times), Timezone: c.zone, Overlap: rouse.OverlapAllow}
	e.setPayload(run, c.o)
	switch {
	case strings.Contains(run.User, "/"):
		e.Err = rouse.Refuse("user", run.User, "is a command: the line has no user", "use --from crontab")
	case run.Command == "":
		e.Err = rouse.Refuse("line", line, "has no command", "give the times, and then the command")
	case times == "@reboot":
		e.Err = rouse.Refuse("schedule", times, "is no time", "start the command with its service manager")
	case times == "@every_minute":
		e.Spec.Schedule = "* * * * *"
	case strings.Contains(times, "~"):
		e.Err = rouse.Refuse("schedule", times, "has a random value",
			"write H, which is always the same for one name: "+randomOf(times))
	}
	if delay := c.environment["RANDOM_DELAY"]; delay != "" {
		e.setRandomDelay(delay)
	}
	if strings.Contains(flags, "s") {
		e.Spec.Overlap = rouse.OverlapSkip
	}
	if flags != "" {
		e.noteDifference(
			"its flags -%s are those of cron: with s it does not start while it runs, and overlap is skip; q and n are about its log and mails.", flags)
	}
	if e.Err == nil && !c.zoned && c.zone == "" {
		e.noteDifference("cron uses the local time of its machine, this timer UTC: give --timezone.")
	}
	c.entries, c.commands = append(c.entries, e), append(c.commands, run)
}

// setRandomDelay takes over the minutes by which cronie starts commands later: a random part of them, until
// it is started again.
func (e *Entry) setRandomDelay(text string) {
	minutes, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		e.noteDifference("RANDOM_DELAY=%s is left out: it is no number of minutes.", text)
	} else if e.Spec.Jitter = time.Duration(minutes) * time.Minute; minutes > 0 {
		e.noteDifference("its random delay, which only cronie has, became jitter: each occurrence has always the same delay.")
	}
}

var random = regexp.MustCompile(`[0-9A-Za-z]*~[0-9A-Za-z]*`)

// randomOf returns times with H instead of random values.
func randomOf(times string) string {
	texts, fields := strings.Fields(times), cronFields("-", false, true)
	for i, text := range texts {
		texts[i] = random.ReplaceAllStringFunc(text, func(item string) string {
			lo, hi, _ := strings.Cut(item, "~")
			if lo+hi == "" {
				return "H"
			}
			f := &fields[min(i, 4)]
			return "H(" + cmp.Or(lo, strconv.Itoa(f.lo)) + "-" + cmp.Or(hi, strconv.Itoa(f.hi)) + ")"
		})
	}
	return strings.Join(texts, " ")
}

// nameEntries names the entries after their commands.
func (c *crontab) nameEntries() {
	for i := range c.entries {
		c.entries[i].Name = commandName(c.commands[i].Command)
	}
	nameApart(c.entries, func(i int) string {
		run, s := &c.commands[i], &c.entries[i].Spec
		return strings.Join([]string{run.Command, run.Stdin, run.User, s.Timezone, s.Schedule}, "\x00")
	})
}

// readVariable takes a line that sets a variable: NAME = VALUE.
func (c *crontab) readVariable(line string) bool {
	name, value, ok := strings.Cut(line, "=")
	name = strings.Trim(strings.TrimSpace(name), `"'`)
	if !ok || name == "" || strings.ContainsFunc(name,
		func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		return false
	}
	value = strings.TrimSpace(value)
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	if name == "CRON_TZ" {
		if c.zone, c.zoned = value, value != ""; !c.zoned {
			c.zone = c.usual
		}
		return true
	}
	c.environment[name] = value
	return true
}

// cutFlags splits the flags of OpenBSD and FreeBSD from a command.
func cutFlags(text string) (flags, command string) {
	for {
		word, rest := cutFields(text, 1)
		letters, ok := strings.CutPrefix(word, "-")
		if !ok || letters == "" || strings.Trim(letters, "nqs") != "" {
			return flags, text
		}
		flags, text = flags+letters, rest
	}
}

// cutFields splits a line after n fields.
func cutFields(line string, n int) (fields, rest string) {
	var list []string
	for range n {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		i := strings.IndexFunc(line, unicode.IsSpace)
		if i < 0 {
			i = len(line)
		}
		list, line = append(list, line[:i]), line[i:]
	}
	return strings.Join(list, " "), strings.TrimSpace(line)
}

// preludes are commands after which the one comes that is meant, wrappers those whose arguments it is, and
// interpreters those that run the file of their first argument.
var (
	preludes = map[string]bool{"cd": true, "test": true, "[": true}
	wrappers = map[string]bool{"exec": true, "nice": true, "ionice": true, "env": true, "sudo": true,
		"run-parts": true}
	interpreters = regexp.MustCompile(`^(sh|bash|dash|ksh|zsh|php|python|perl|ruby|node)[0-9.]*$`)
)

// splitCommand splits a command at its first percent sign: the rest is its input, where further ones are ends
// of lines. A backslash takes the meaning from a percent sign.
func splitCommand(text string) (command, stdin string) {
	var parts [2]strings.Builder
	part := 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\' && i+1 < len(text) && text[i+1] == '%':
			parts[part].WriteByte('%')
			i++
		case b == '%' && part == 0:
			part = 1
		case b == '%':
			parts[part].WriteByte('\n')
		default:
			parts[part].WriteByte(b)
		}
	}
	return strings.TrimSpace(parts[0].String()), parts[1].String()
}

// commandName returns a name for the timer of a command: that of its program or script, which may come after
// a condition, with a hash of the command if it has arguments. Arguments themselves can be secrets, which
// names are not.
func commandName(command string) string {
	meant := command
	if i := max(strings.LastIndex(command, "&&"), strings.LastIndex(command, "||")); i >= 0 &&
		preludes[strings.Fields(command)[0]] {
		meant = command[i+2:]
	}
	name, interpreted, arguments := "", false, false
	for word := range strings.FieldsSeq(meant) {
		switch {
		case strings.ContainsAny(word, "<>"):
		case name != "" && !interpreted:
			arguments = true
		case word[0] == '-' && interpreted: // not all flags of interpreters are followed by a script
			arguments, interpreted = true, false
		case strings.Contains(word, "=") || word[0] == '-' || wrappers[word]:
		default:
			base := strings.Map(func(r rune) rune {
				if r == '.' || r == '-' || r == '_' || r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
					return r
				}
				return -1
			}, path.Base(word))
			if base != "" {
				name, interpreted = base, name == "" && interpreters.MatchString(base)
			}
		}
	}
	if name == "" {
		name, arguments = "cron", true
	}
	if len(name) > maxNameOfCommand {
		name, arguments = name[:maxNameOfCommand], true
	}
	if arguments {
		name += "-" + nameHash(command)
	}
	return name
}

// maxNameOfCommand bounds the part of a name that its command gives, in bytes.
const maxNameOfCommand = 64
