package transact

import (
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

// wrapSQLError wraps an error of the server in rouse's error, or adds the cure. Error types differ between
// drivers, but all contain the SQLSTATE.
func wrapSQLError(err error) error {
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
		return fmt.Errorf("%w; grant the role the rights in postgres.CallerRole", err)
	case "3F000", "42883":
		return fmt.Errorf(
			"%w; the schema is not there, or of a version before these functions: migrate it, or name another one", err)
	}
	return err
}
