package service

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// anyApp asks whether a caller may act as every app.
const anyApp = "*"

// requireApp refuses a caller that may not act as an app.
func (s *Service) requireApp(ctx context.Context, app string) error {
	return s.opts.Access.RequireApp(ctx, access.RemindersUse, "", app)
}

// findOwn returns the timer of the reminder that has an id, or had it, if it is of an app as which the caller
// may act. A reminder of another app does not exist for the caller: ids are numbers that can be guessed.
func (s *Service) findOwn(ctx context.Context, id string) (rouse.Timer, error) {
	t, err := s.findReminder(ctx, id)
	if err == nil && s.requireApp(ctx, convert.Where(&t.Spec).App) != nil {
		return rouse.Timer{}, fmt.Errorf("the reminder %s: %w", id, rouse.ErrNotFound)
	}
	return t, err
}
