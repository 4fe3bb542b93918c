package node

import (
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

// problems are what is wrong with a configuration, each with the name of its setting.
type problems []rouse.Problem

func (p *problems) add(setting, format string, args ...any) {
	*p = append(*p, rouse.Problem{Field: setting, Wrong: fmt.Sprintf(format, args...)})
}

// of adds those of an error, which is an *rouse.Invalid.
func (p *problems) of(err error) {
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		*p = append(*p, inv.Problems...)
		return
	}
	*p = append(*p, rouse.Problem{Wrong: err.Error()})
}

// err returns an *rouse.Invalid with all of them, nil if there are none.
func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &rouse.Invalid{Problems: p}
}
