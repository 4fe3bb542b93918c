package actor

import (
	"context"

	"github.com/rousehq/rouse/internal/access"
)

// requireApp refuses a caller that may not act as an app.
func (s *Service) requireApp(ctx context.Context, app string) error {
	return s.opts.Access.RequireApp(ctx, access.RemindersUse, "", app)
}
