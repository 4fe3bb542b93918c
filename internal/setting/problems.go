package setting

import (
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

// Problems are what is wrong with a configuration, each with the name of its setting.
type Problems []rouse.Problem

// Add adds one of a setting.
func (p *Problems) Add(setting, format string, args ...any) {
	*p = append(*p, rouse.Problem{Field: setting, Wrong: fmt.Sprintf(format, args...)})
}

// Of adds those of an error, which is an *rouse.Invalid.
func (p *Problems) Of(err error) {
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		*p = append(*p, inv.Problems...)
		return
	}
	*p = append(*p, rouse.Problem{Wrong: err.Error()})
}

// Err returns an *rouse.Invalid with all of them, nil if there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return &rouse.Invalid{Problems: p}
}
