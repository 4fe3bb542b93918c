package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a completion script.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `The script knows the commands and flags of this binary.

Examples:

    source <(rouse completion bash)
    rouse completion zsh > "${fpath[1]}/_rouse"
    rouse completion fish > ~/.config/fish/completions/rouse.fish`
}

// Run prints the script.
func (c *completionCmd) Run(a *app) error {
	parser, err := newParser(a)
	if err != nil {
		return err
	}
	places := placesOf(parser.Model.Node)
	switch c.Shell {
	case "bash":
		return completeBash(a.out, places)
	case "zsh":
		return completeZsh(a.out, places)
	}
	return completeFish(a.out, places)
}

// place is a command that the cursor can be behind, and what can follow.
type place struct {
	path     string // "dead list"; empty behind the program's name
	commands []word
	flags    []word
}

// word is something to type.
type word struct {
	text, help string
	value      bool // a flag that takes one
}

// placesOf walks the command line's model.
func placesOf(root *kong.Node) []place {
	var places []place
	var walk func(n *kong.Node, path []string)
	walk = func(n *kong.Node, path []string) {
		p := place{path: strings.Join(path, " ")}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				p.flags = append(p.flags, word{text: "--" + f.Name, help: f.Help, value: !f.IsBool()})
			}
		}
		slices.SortFunc(p.flags, func(a, b word) int { return strings.Compare(a.text, b.text) })
		for _, arg := range n.Positional {
			if arg.Enum == "" {
				continue
			}
			for _, choice := range arg.EnumSlice() {
				p.commands = append(p.commands, word{text: choice, help: arg.Name})
			}
		}
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				p.commands = append(p.commands, word{text: child.Name, help: child.Help})
			}
		}
		places = append(places, p)
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				walk(child, append(slices.Clone(path), child.Name))
			}
		}
	}
	walk(root, nil)
	return places
}

// steps are the texts "place word" that lead from a place to the next.
func steps(places []place) []string {
	var list []string
	for _, p := range places[1:] {
		at, last := "", p.path
		if i := strings.LastIndexByte(p.path, ' '); i >= 0 {
			at, last = p.path[:i], p.path[i+1:]
		}
		list = append(list, at+" "+last)
	}
	return list
}

// valued are the flags that take a value, which the shell completes as a file name.
func valued(places []place) []string {
	seen := map[string]bool{}
	for _, p := range places {
		for _, f := range p.flags {
			if f.value {
				seen[f.text] = true
			}
		}
	}
	list := make([]string, 0, len(seen))
	for f := range seen {
		list = append(list, f)
	}
	slices.Sort(list)
	return list
}
