package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// canAsk reports whether a user can answer questions.
func (a *app) canAsk() bool {
	in, ok := a.in.(*os.File)
	return ok && isTerminal(in) && a.errTTY
}

// askConfirmation asks the user to agree. If that is not possible, the flag is required.
func (a *app) askConfirmation(question string) error {
	if !a.canAsk() {
		return &usage{text: question + " say so with --yes"}
	}
	fmt.Fprint(a.errOut, cleanText(question)+" [y/N] ")
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	fmt.Fprintln(a.errOut, "nothing was done")
	return silent(exitFailure)
}
