package transact

import (
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

// explain gives an error of the server rouse's name, or adds the cure. Drivers have types of their own for them, which all tell the
// SQLSTATE.
func explain(err error) error {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return err
	}
	switch state.SQLState() {
	case "23505":
		return fmt.Errorf("%w: %w", rouse.ErrExists, err)
	case "53100":
		return fmt.Errorf("%w: %w", rouse.ErrFull, err)
	case "42501":
		return fmt.Errorf("%w; grant the role what postgres.CallerRole says", err)
	case "3F000", "42883":
		return fmt.Errorf("%w; the schema is not there, or of a version before these functions: migrate it, or name another one", err)
	}
	return err
}
