package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// renewLeases takes or renews the node's leases and more in one query. It returns the latter, and the time of
// the request, from which they count.
func (m *Member) renewLeases(ctx context.Context, load map[uint32]float64, more []rouse.Want) (
	leases []rouse.Lease, asked time.Time, err error) {
	m.mu.Lock()
	present, attests := m.currentAttendance()
	stands := m.standing
	tell := m.renewed.IsZero() || present != m.told || stands != m.toldStand || m.answers
	m.mu.Unlock()
	wants := []rouse.Want{{Name: nodePrefix + m.o.Node, Data: m.leaseData(load, attests, stands)}}
	if m.o.Leads == nil {
		wants = append(wants, rouse.Want{Name: leaderName})
	}
	own := len(wants)
	wants = append(wants, more...)
	asked = boottime.Now()
	leases, err = m.lockLeases(ctx, wants)
	if err == nil && tell {
		defer m.announceChange(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	if err != nil {
		return nil, asked, err
	}
	m.told, m.toldStand, m.answers = present, stands, false
	if m.renewed = asked; leases[0].Owner != m.owner {
		m.renewed = time.Time{}
		m.err = fmt.Errorf("another process has the node's name %q; give each node a name of its own", m.o.Node)
	}
	m.leading = time.Time{}
	if own > 1 && leases[1].Owner == m.owner {
		m.leading = asked
	}
	return leases[own:], asked, nil
}

// lockLeases requests leases and returns one for each.
func (m *Member) lockLeases(ctx context.Context, wants []rouse.Want) ([]rouse.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	defer cancel()
	began := time.Now()
	leases, err := m.locks.Lock(ctx, m.owner, m.o.TTL, wants)
	m.pace.addCall(began)
	if err == nil && len(leases) != len(wants) {
		err = fmt.Errorf("the store answered with %d leases for %d", len(leases), len(wants))
	}
	return leases, err
}

func (m *Member) leaseData(load map[uint32]float64, attests string, stands standing) []byte {
	s := nodeData{
		Load: load, Aside: !m.shares || stands == yielded, Attends: attests, Address: m.o.Address, Host: m.host,
		Left: m.going, Lasts: m.o.TTL.Milliseconds(),
	}
	if m.o.Fires && stands != yielded {
		s.Takes = (m.pace.typicalDuration() + time.Millisecond - 1).Milliseconds()
	}
	if m.o.Data != nil {
		if data := m.o.Data(); json.Valid(data) {
			s.Data = data
		}
	}
	data, err := json.Marshal(s)
	if err != nil { // a load is NaN or infinite
		s.Load = nil
		data, _ = json.Marshal(s)
	}
	return data
}
