package pool

import (
	"context"
	"log/slog"
	"time"
)

// repeatedFailure is that the last call of a kind failed, after others that did. A nil trouble is none.
type repeatedFailure struct {
	err    error
	count  int       // calls in a row that failed; 0: the error is an answer, such as that a queue is in use
	logged time.Time // when it was last logged
}

// failureReminder is how long a failure that does not change is not logged again.
const failureReminder = 10 * time.Minute

// failureLog logs the failures of calls: the first one, those with another error, a reminder of those that go
// on, and the end. There may be thousands of keys, so lines that come too fast are counted only.
type failureLog struct {
	log   *slog.Logger
	lines Sparse
}

// noteCallFailure returns the failure after a call, whose error may be nil, and logs the change. It
// logs nothing when ctx has ended, which calls fail with: it is the context of the loop, as that of the call
// ends with it.
func (l *failureLog) noteCallFailure(ctx context.Context, before *repeatedFailure, err error, text string,
	args ...any) *repeatedFailure {
	if err == nil {
		if before != nil && before.count > 0 {
			l.lines.Write(l.log, slog.LevelInfo, "calls that failed succeed again",
				append(args, "failed", text, "failures", before.count)...)
		}
		return nil
	}
	now := time.Now()
	f := &repeatedFailure{err: err, count: 1}
	if before != nil {
		f.count, f.logged = before.count+1, before.logged
	}
	changed := before == nil || before.err.Error() != err.Error()
	if ctx.Err() == nil && (changed || now.Sub(f.logged) >= failureReminder) {
		f.logged = now
		l.lines.Warn(l.log, text, append(args, "error", err, "failures", f.count)...)
	}
	return f
}

// callError returns the error of a failure; nil without one.
func (f *repeatedFailure) callError() error {
	if f == nil {
		return nil
	}
	return f.err
}
