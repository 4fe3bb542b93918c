package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

var _ rouse.Diagnosed = (*Store)(nil)

// memoryFull is from which part of maxmemory on a server counts as nearly full.
const memoryFull = 0.9

// Diagnose implements rouse.Diagnosed.
func (s *Store) Diagnose(ctx context.Context) ([]rouse.Finding, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	is, err := s.inspectServers(ctx)
	if errors.Is(err, rouse.ErrUnavailable) || ctx.Err() != nil {
		return nil, err
	}
	if err != nil { // the settings have changed since the store was opened
		return []rouse.Finding{{Check: rouse.CheckStoreSettings, Severity: rouse.SeverityCritical, Seen: err.Error(),
			Cure: "change it as it tells: a node that starts refuses it"}}, nil
	}
	return is.assessSettings(s.addr), nil
}

// assessSettings judges the settings.
func (is *settings) assessSettings(a address) []rouse.Finding {
	kept := rouse.Finding{Check: rouse.CheckStoreSettings, Severity: rouse.SeverityOK,
		Seen: fmt.Sprintf("Redis %s, %s", is.version, is.describeDurability(a.kind, a.ack))}
	switch {
	case is.writes != "" && is.writes != "ok":
		kept.Severity, kept.Seen = rouse.SeverityCritical,
			"Redis cannot write its append-only file: what is acknowledged now may be lost"
		kept.Cure = "look at the log of Redis: its disk may be full or broken"
	case is.aof != "yes":
		kept.Severity, kept.Cure = rouse.SeverityCritical, "set appendonly yes"
	case is.fsync == "no":
		kept.Severity, kept.Cure = rouse.SeverityWarning, "set appendfsync everysec, or always"
	}
	space := rouse.Finding{Check: rouse.CheckStoreSpace, Severity: rouse.SeverityOK, Seen: "there is no maxmemory"}
	if is.bounded {
		space.Seen = fmt.Sprintf("%.0f %% of maxmemory are in use", 100*is.full)
	}
	if is.full > memoryFull {
		space.Severity, space.Cure = rouse.SeverityWarning,
			"raise maxmemory, or delete timers and records: at the limit no timers are taken"
	}
	return []rouse.Finding{kept, space}
}
