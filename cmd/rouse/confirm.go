package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// confirm asks a person to agree. Where there is none, the flag has to say so.
func (a *app) confirm(question string) error {
	in, ok := a.in.(*os.File)
	if !ok || !isTerminal(in) || !a.errTTY {
		return &usage{text: question + " say so with --yes"}
	}
	fmt.Fprint(a.errOut, clean(question)+" [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	fmt.Fprintln(a.errOut, "nothing was done")
	return silent{exitFailure}
}
