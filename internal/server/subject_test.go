package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
)

// TestJobsHaveTheCodesOfTheDoors: an error has one code in the audit log, whether a call or a job ended by
// it.
func TestJobsHaveTheCodesOfTheDoors(t *testing.T) {
	for _, err := range []error{rouse.ErrNotFound, rouse.ErrExists, rouse.ErrConflict, rouse.ErrFull, rouse.ErrOverloaded, rouse.ErrQuota, rouse.ErrClosed,
		rouse.ErrUnavailable, rouse.ErrCorrupt, rouse.ErrUnauthenticated, rouse.ErrForbidden, rouse.Refuse("name", "x", "is wrong", "change it"),
		&rouse.QuotaError{}, rouse.Unavailable(errors.New("gone")), context.Canceled, context.DeadlineExceeded, errors.New("another"),
		access.NewControl(nil).Require(access.With(t.Context(), &access.Principal{ID: "key:x"}), access.TimersBulk, "n", "", nil)} {
		for _, err := range []error{err, fmt.Errorf("of a part: %w", err)} {
			code, reason := timers.AuditCodes(err)
			if wantCode, wantReason := codesOf(err); code != wantCode || reason != wantReason {
				t.Errorf("%v: %q, %q; the doors have %q, %q", err, code, reason, wantCode, wantReason)
			}
		}
	}
}
