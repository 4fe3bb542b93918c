package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// completionCmd prints a completion script.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `The script asks this binary what can follow: commands, flags, values of flags, and names of timers of the server that the command line names.

Examples:

    source <(rouse completion bash)
    rouse completion zsh > "${fpath[1]}/_rouse"
    rouse completion fish > ~/.config/fish/completions/rouse.fish`
}

// The scripts of the shells. Each calls "rouse complete-words" with the words up to the cursor, the last of
// which may be empty.
var (
	//go:embed completion/rouse.bash
	bashCompletion string
	//go:embed completion/rouse.zsh
	zshCompletion string
	//go:embed completion/rouse.fish
	fishCompletion string
)

// Run prints the script.
func (c *completionCmd) Run(a *cli.App) error {
	script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err := io.WriteString(a.Out, script)
	return err
}

// completeWordsCmd prints the candidates for the last word, one per line, with a tab and a description. It
// prints nothing if a file name is expected or no candidate is known.
type completeWordsCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"Words of a command line, up to the cursor."`
}

// Run prints the candidates.
func (c *completeWordsCmd) Run(a *cli.App) error {
	parser, err := newParser(a)
	if err != nil {
		return err
	}
	for _, cand := range completeWord(parser.Model.Node, c.Words, func(flags map[string]string, prefix string) []string {
		return queryTimerNames(a, flags, prefix)
	}) {
		fmt.Fprintf(a.Out, "%s\t%s\n", cand.text, strings.ReplaceAll(cand.help, "\n", " "))
	}
	return nil
}

// candidate is a possible word and its description.
type candidate struct{ text, help string }

// completeWord returns the candidates for the last word. names returns the names of timers with a prefix;
// flags are the flags with values in the words before.
func completeWord(root *kong.Node, words []string,
	names func(flags map[string]string, prefix string) []string) (list []candidate) {
	if len(words) == 0 {
		words = []string{""}
	}
	node, place, flags := root, 0, map[string]string{}
	var open *kong.Flag // expects a value next
	for _, w := range words[:len(words)-1] {
		name, value, valued := strings.Cut(w, "=")
		flag := flagOf(node, name)
		child := findCommand(node, w)
		switch {
		case open != nil:
			flags[open.Name], open = w, nil
		case flag != nil && valued:
			flags[flag.Name] = value
		case flag != nil && !flag.IsBool():
			open = flag
		case flag != nil || strings.HasPrefix(w, "-"):
		case child != nil:
			node, place = child, 0
		default:
			place++
		}
	}
	last := words[len(words)-1]
	add := func(text, help string) {
		if strings.HasPrefix(text, last) {
			list = append(list, candidate{text, help})
		}
	}
	name, _, valued := strings.Cut(last, "=")
	switch {
	case open != nil:
		for _, v := range possibleValues(open.Value) {
			add(v, open.Help)
		}
	case valued && flagOf(node, name) != nil:
		f := flagOf(node, name)
		for _, v := range possibleValues(f.Value) {
			add(name+"="+v, f.Help)
		}
	case strings.HasPrefix(last, "-"):
		for _, f := range flagsOf(node) {
			add("--"+f.Name, f.Help)
		}
	default:
		for _, child := range node.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				add(child.Name, child.Help)
			}
		}
		if place >= len(node.Positional) {
			break
		}
		arg := node.Positional[place]
		for _, v := range possibleValues(arg) {
			add(v, arg.Help)
		}
		if namesTimer(arg) {
			for _, n := range names(flags, last) {
				add(n, "timer")
			}
		}
	}
	return list
}

// flagsOf returns the flags of a command by name.
func flagsOf(n *kong.Node) (list []*kong.Flag) {
	for _, group := range n.AllFlags(true) {
		list = append(list, group...)
	}
	slices.SortFunc(list, func(a, b *kong.Flag) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// flagOf returns the flag with this word, or nil.
func flagOf(n *kong.Node, word string) *kong.Flag {
	for _, f := range flagsOf(n) {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

// findCommand returns the command with this word, or nil.
func findCommand(n *kong.Node, word string) *kong.Node {
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && (child.Name == word || slices.Contains(child.Aliases, word)) {
			return child
		}
	}
	return nil
}

// listed matches the values that a help text lists, as in "How nodes share the timers: bucket, lease or
// tick."
var listed = regexp.MustCompile(`: ((?:[a-z-]+, )*[a-z-]+ or [a-z-]+)(?:[.;]|$)`)

// possibleValues returns the possible values of a flag or an argument if they are enumerated.
func possibleValues(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	if v.Flag != nil && v.Name == "profile" {
		all, _ := cli.ReadProfiles() // without them there is nothing to propose
		return slices.Sorted(maps.Keys(all.Named))
	}
	m := listed.FindStringSubmatch(v.Help)
	if m == nil {
		return nil
	}
	return strings.FieldsFunc(strings.ReplaceAll(m[1], " or ", ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// namesTimer reports whether an argument is the name of a timer that is there.
func namesTimer(arg *kong.Positional) bool {
	return arg.Name == "name" && strings.HasPrefix(arg.Help, "Name of ") && strings.Contains(arg.Help, "timer") &&
		!strings.Contains(arg.Help, "unique")
}

const (
	maxNames     = 100             // timers that are proposed
	namesTimeout = 2 * time.Second // a user is waiting while typing
)

// queryTimerNames queries the server of the given flags for timers. If the server does not answer, there are
// none.
func queryTimerNames(a *cli.App, flags map[string]string, prefix string) (names []string) {
	a.Given = map[string]bool{}
	for name, to := range map[string]*string{"profile": &a.Flags.Profile, "server": &a.Flags.Server, "namespace": &a.Flags.Namespace} {
		if flags[name] != "" {
			*to, a.Given[name] = flags[name], true
		}
	}
	_ = a.ApplyProfile()
	namespace := a.Flags.Namespace
	_ = a.WithClient(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.Ctx, namesTimeout)
		defer cancel()
		for t, err := range c.List(ctx, rouse.Query{Namespace: namespace, Prefix: prefix, Limit: maxNames}) {
			if err != nil || len(names) == maxNames {
				return err
			}
			names = append(names, t.Key.Name)
		}
		return nil
	})
	return names
}
