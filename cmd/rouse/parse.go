package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
)

// runner is a command with its arguments.
type runner interface{ Run(a *cli.App) error }

// parseCommand reads the arguments into a.flags, and returns the selected command.
//
// It replaces Parse, Validate and Run of kong, which look up methods by names that are known at run time
// only. One such call in a program makes the linker keep all exported methods of all types, which were a
// third of the binary.
func parseCommand(a *cli.App, args []string) (runner, error) {
	parser, err := newParser(a)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, printBareHelp(a, parser)
	}
	if err := config.CheckVariables(os.Environ()); err != nil {
		return nil, err
	}
	k, err := kong.Trace(parser, normalizeArguments(args))
	if err != nil {
		return nil, err
	}
	if k.Error == nil && slices.ContainsFunc(k.Path,
		func(p *kong.Path) bool { return p.Flag != nil && p.Flag == parser.Model.HelpFlag }) {
		if err := k.PrintUsage(false); err != nil {
			return nil, err
		}
		return nil, cli.Silent(cli.ExitOK)
	}
	c, err := resolveCommand(k)
	if err != nil {
		a.Flags.JSON = a.Flags.JSON || asksForJSON(args)
		return nil, usageError(err, k.Selected())
	}
	a.Command = k.Selected().FullPath()
	a.Given = map[string]bool{}
	for _, p := range k.Path {
		if p.Flag != nil {
			a.Given[p.Flag.Name] = true
		}
	}
	return c, a.ApplyProfile()
}

// resolveCommand sets defaults, values of the environment and those of the arguments, checks them, and
// returns the selected command.
func resolveCommand(k *kong.Context) (runner, error) {
	if k.Error != nil {
		return nil, k.Error
	}
	if err := k.Reset(); err != nil {
		return nil, err
	}
	if _, err := k.Apply(); err != nil {
		return nil, err
	}
	for _, p := range k.Path {
		if n := p.Node(); n != nil {
			if err := checkNode(n); err != nil {
				return nil, err
			}
		}
	}
	n := k.Selected()
	if n == nil {
		n = k.Model.Node
	}
	var missing []string
	for _, arg := range n.Positional {
		if arg.Required && !arg.Set {
			missing = append(missing, arg.Summary())
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("expected %q", strings.Join(missing, " "))
	}
	c, ok := n.Target.Addr().Interface().(runner)
	if !ok {
		return nil, fmt.Errorf("expected one of %s", subcommandNames(n))
	}
	return c, nil
}

// checkNode finds flags of a command that are missing or exclude each other, and values that are not among
// the enumerated ones.
func checkNode(n *kong.Node) error {
	for _, v := range n.Values() {
		if v.Enum != "" && v.Set && !slices.Contains(v.EnumSlice(), fmt.Sprint(v.Target)) {
			return fmt.Errorf("%s must be one of %s but got %q", v.ShortSummary(), quoteWords(v.EnumSlice()), v.Target)
		}
	}
	var missing []string
	chosen := map[string]string{} // the flag that is set of those that exclude each other
	for _, f := range n.Flags {
		if f.Required && !f.Set {
			missing = append(missing, f.Summary())
		}
		for _, group := range f.Xor {
			if !f.Set {
				continue
			}
			if other := chosen[group]; other != "" {
				return fmt.Errorf("--%s and --%s can't be used together", other, f.Name)
			}
			chosen[group] = f.Name
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing flags: %s", strings.Join(missing, ", "))
	}
	return nil
}

// subcommandNames returns the first commands of a node, for an error.
func subcommandNames(n *kong.Node) string {
	var names []string
	for _, child := range n.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	if len(names) > 5 {
		return quoteWords(names[:5]) + ", ..."
	}
	return quoteWords(names)
}

func quoteWords(words []string) string {
	return `"` + strings.Join(words, `", "`) + `"`
}

// normalizeArguments replaces the common forms "--version" and "help COMMAND" by the forms used here.
func normalizeArguments(args []string) []string {
	for i, arg := range args {
		switch {
		case arg == "--version":
			return slices.Replace(slices.Clone(args), i, i+1, "version")
		case arg == "help" && i == 0:
			return append(slices.Clone(args[1:]), "--help")
		case !strings.HasPrefix(arg, "--") || arg == "--":
			return args
		}
	}
	return args
}

// printBareHelp prints the help to stderr if there are no arguments.
func printBareHelp(a *cli.App, parser *kong.Kong) error {
	parser.Stdout = a.ErrOut
	k, err := kong.Trace(parser, nil)
	if err == nil {
		err = k.PrintUsage(false)
	}
	if err != nil {
		return err
	}
	return cli.Silent(cli.ExitUsage)
}

// asksForJSON looks for --json in arguments that could not be parsed, so that the error can be printed as
// JSON.
func asksForJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--json", "--json=true":
			return true
		case "--":
			return false
		}
	}
	return false
}

// usageError returns an error in the use of a command; nil: no command was recognized.
func usageError(err error, c *kong.Node) error {
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		return inv
	}
	u := &cli.Usage{Text: err.Error(), Help: "rouse --help"}
	if c != nil {
		u.Help = c.FullPath() + " --help"
	}
	return u
}
