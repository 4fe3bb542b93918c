package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// CanAsk reports whether a user can answer questions.
func (a *App) CanAsk() bool {
	in, ok := a.In.(*os.File)
	return ok && isTerminal(in) && a.ErrTTY
}

// AskConfirmation asks the user to agree. If that is not possible, the flag is required.
func (a *App) AskConfirmation(question string) error {
	if !a.CanAsk() {
		return &Usage{Text: question + " say so with --yes"}
	}
	fmt.Fprint(a.ErrOut, CleanText(question)+" [y/N] ")
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	fmt.Fprintln(a.ErrOut, "nothing was done")
	return Silent(ExitFailure)
}
