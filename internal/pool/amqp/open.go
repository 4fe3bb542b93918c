package amqp

import "github.com/rousehq/rouse/internal/pool"

// Open returns the controller and a caller of a pool.
func (c Config) Open(m *pool.Manager, o pool.CallerOptions) (pool.Controller, pool.Caller, error) {
	ctl, err := New(c, m)
	if err != nil {
		return nil, nil, err
	}
	return ctl, NewCaller(ctl, o), nil
}
