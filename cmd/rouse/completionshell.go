package main

import (
	"fmt"
	"io"
	"strings"
)

// texts joins the words that can follow, for bash.
func texts(words ...[]word) string {
	var list []string
	for _, ws := range words {
		for _, w := range ws {
			list = append(list, w.text)
		}
	}
	return strings.Join(list, " ")
}

// quoted joins texts as the alternatives of a shell's case.
func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(`"` + s + `"`)
	}
	return b.String()
}

// single quotes a text for a shell.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func completeBash(w io.Writer, places []place) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# bash completion of rouse: source <(rouse completion bash)
_rouse() {
	local at="" words="" i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at ${COMP_WORDS[i]}" in
		%s) at="${at:+$at }${COMP_WORDS[i]}" ;;
		esac
	done
	COMPREPLY=()
	case "${COMP_WORDS[COMP_CWORD-1]}" in
	%s) return ;;
	esac
	case "$at" in
`, quoted(steps(places)), quoted(valued(places)))
	for _, p := range places {
		fmt.Fprintf(&b, "\t%q) words=%q ;;\n", p.path, texts(p.commands, p.flags))
	}
	b.WriteString(`	esac
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _rouse rouse
`)
	_, err := io.WriteString(w, b.String())
	return err
}

func completeZsh(w io.Writer, places []place) error {
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef rouse
# zsh completion of rouse: rouse completion zsh > "${fpath[1]}/_rouse"
_rouse() {
	local at=""
	local -i i
	local -a commands flags
	for ((i = 2; i < CURRENT; i++)); do
		case "$at $words[i]" in
		(%s) at="${at:+$at }$words[i]" ;;
		esac
	done
	case "$words[CURRENT-1]" in
	(%s) _files; return ;;
	esac
	case "$at" in
`, quoted(steps(places)), quoted(valued(places)))
	describe := func(words []word) string {
		var list []string
		for _, w := range words {
			list = append(list, single(strings.ReplaceAll(w.text, ":", `\:`)+":"+w.help))
		}
		return strings.Join(list, " ")
	}
	for _, p := range places {
		fmt.Fprintf(&b, "\t(%q)\n\t\tcommands=(%s)\n\t\tflags=(%s) ;;\n", p.path, describe(p.commands), describe(p.flags))
	}
	b.WriteString(`	esac
	(( $#commands )) && _describe 'command' commands
	_describe -o 'flag' flags
	(( $#commands )) || _files
}
if [ "$funcstack[1]" = _rouse ]; then _rouse "$@"; else compdef _rouse rouse; fi
`)
	_, err := io.WriteString(w, b.String())
	return err
}

func completeFish(w io.Writer, places []place) error {
	var b strings.Builder
	b.WriteString(`# fish completion of rouse: rouse completion fish > ~/.config/fish/completions/rouse.fish
function __rouse_at
	set -l at ""
	for word in (commandline -opc)[2..-1]
		switch "$at $word"
`)
	for _, step := range steps(places) {
		fmt.Fprintf(&b, "\t\t\tcase %s\n\t\t\t\tset at (string trim \"$at $word\")\n", single(step))
	}
	b.WriteString(`		end
	end
	test "$at" = "$argv[1]"
end
`)
	for _, p := range places {
		at := single("__rouse_at " + fmt.Sprintf("%q", p.path))
		for _, c := range p.commands {
			fmt.Fprintf(&b, "complete -c rouse -n %s -f -a %s -d %s\n", at, single(c.text), single(c.help))
		}
		for _, f := range p.flags {
			takes := ""
			if f.value {
				takes = " -r"
			}
			fmt.Fprintf(&b, "complete -c rouse -n %s -l %s%s -d %s\n", at, single(strings.TrimPrefix(f.text, "--")), takes, single(f.help))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
