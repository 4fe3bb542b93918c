package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Create creates a reminder at an instance that shares a bucket with this sidecar; it waits until such an
// instance exists. The reminder is durable when Create returns. After rouse.ErrUnavailable, the reminder may
// exist although its id was lost: another call may then create a second reminder, with its own id.
func (c *Client) Create(ctx context.Context, r Reminder) (Created, error) {
	request := &reminderv1.CreateReminderRequest{Reminder: r.reminderToProto(), Caller: c.caller,
		Actor: r.Actor.actorToProto()}
	answer, err := tryInstances(ctx, c, job[*reminderv1.CreateReminderResponse]{prefer: c.nextTokenInstances,
		do: func(ctx context.Context, conn grpc.ClientConnInterface, _ bool) (*reminderv1.CreateReminderResponse, error) {
			return reminderv1.NewReminderServiceClient(conn).CreateReminder(ctx, request)
		}})
	if err != nil {
		return Created{}, err
	}
	return Created{ID: answer.GetReminderId(), NextExecution: timeFromProto(answer.GetNextExecutionTime()),
		Bucket: answer.GetTokenBucketId()}, nil
}

// nextTokenInstances returns the instances that give tokens of this sidecar's buckets, beginning with another
// one each time.
func (c *Client) nextTokenInstances() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		return nil
	}
	list := c.table.tokenInstances(c.o.Address)
	if len(list) == 0 {
		return nil
	}
	c.turn++
	at := c.turn % len(list)
	return append(slices.Clone(list[at:]), list[:at]...)
}

// preferHolder returns the instance that has a reminder, according to the table.
func (c *Client) preferHolder(id string) func() []string {
	return func() []string { return []string{c.Table().holdingInstance(id)} }
}

// Get returns a reminder, named by its id or an earlier one.
func (c *Client) Get(ctx context.Context, id string) (State, error) {
	p, err := tryInstances(ctx, c, job[*reminderv1.GetReminderResponse]{prefer: c.preferHolder(id), repeat: true,
		do: func(ctx context.Context, conn grpc.ClientConnInterface, _ bool) (*reminderv1.GetReminderResponse, error) {
			return reminderv1.NewReminderServiceClient(conn).GetReminder(ctx, &reminderv1.GetReminderRequest{ReminderId: id})
		}})
	if err != nil {
		return State{}, err
	}
	return State{ID: p.GetReminderId(), Reminder: reminderOf(p.GetReminder(), p.GetActor()), App: p.GetAppId(),
		Bucket: p.GetTokenBucketId(), Attempts: int(p.GetAttempts()),
		LastError: p.GetLastError(), Sidecar: p.GetSidecarInstance(), Instance: p.GetRemSerInstance()}, nil
}

// Delete ends a reminder, named by its id or an earlier one. No execution begins afterwards; inFlight reports
// that one had begun, and may still arrive or be in progress. A reminder that is not there is
// rouse.ErrNotFound, unless an earlier try of the same call may have deleted it.
func (c *Client) Delete(ctx context.Context, id string) (inFlight bool, err error) {
	p, err := tryInstances(ctx, c, job[*reminderv1.DeleteReminderResponse]{prefer: c.preferHolder(id), repeat: true,
		do: func(ctx context.Context, conn grpc.ClientConnInterface,
			unsure bool) (*reminderv1.DeleteReminderResponse, error) {
			p, err := reminderv1.NewReminderServiceClient(conn).DeleteReminder(ctx,
				&reminderv1.DeleteReminderRequest{ReminderId: id})
			if unsure && status.Code(err) == codes.NotFound {
				// unknown: the earlier try may have deleted it, and its answer is lost
				return &reminderv1.DeleteReminderResponse{InFlight: true}, nil
			}
			return p, err
		}})
	return p.GetInFlight(), err
}

// maxMoves is how many reminders one call moves.
const maxMoves = 1000

// Subscribe moves reminders of the app into buckets of this sidecar, so that their executions come here. Each
// gets a new id, in one step, and never while it is executed; earlier ids remain valid. Reminders that are
// already here do not change. It returns a result for each, in the order of the ids. A reminder that could
// not be moved because it is being executed, or is changing, has rouse.ErrConflict or rouse.ErrUnavailable:
// retry it. If a call fails, Subscribe returns the results so far with the error.
func (c *Client) Subscribe(ctx context.Context, ids ...string) ([]Moved, error) {
	var all []Moved
	for part := range slices.Chunk(ids, maxMoves) {
		became, err := c.subscribeReminders(ctx, part)
		for _, id := range part {
			if m, ok := became[id]; ok {
				all = append(all, m)
			}
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// subscribeReminders moves reminders by one call. If some cannot be moved, the call fails with an error that
// names some of them, and subscribeReminders calls again for the rest.
func (c *Client) subscribeReminders(ctx context.Context, ids []string) (map[string]Moved, error) {
	became := make(map[string]Moved, len(ids))
	for rest := ids; len(rest) > 0; {
		var unmoved *reminderv1.SubscribeReminderResponse
		p, err := tryInstances(ctx, c, job[*reminderv1.SubscribeReminderResponse]{prefer: c.nextTokenInstances, repeat: true,
			do: func(ctx context.Context, conn grpc.ClientConnInterface, _ bool) (*reminderv1.SubscribeReminderResponse, error) {
				p, err := reminderv1.NewReminderServiceClient(conn).SubscribeReminder(ctx,
					&reminderv1.SubscribeReminderRequest{ReminderList: rest, Caller: c.caller})
				if unmoved = unmovedOf(err); unmoved != nil {
					return nil, nil
				}
				return p, err
			}})
		if err != nil {
			return became, err
		}
		if unmoved != nil {
			for i, r := range unmoved.Results {
				became[r.GetAsked()] = Moved{Asked: r.GetAsked(), Err: moveError(unmoved, i)}
			}
			before := len(rest)
			if rest = slices.DeleteFunc(slices.Clone(rest),
				func(id string) bool { _, known := became[id]; return known }); len(rest) == before {
				return became, errors.New("the service could not move some reminders, and names others than it was asked for")
			}
			continue
		}
		if len(p.GetReminderId()) != len(rest) {
			return became, fmt.Errorf("the service was asked to move %d reminders, and told of %d", len(rest),
				len(p.GetReminderId()))
		}
		for i, id := range rest {
			became[id] = Moved{Asked: id, ID: p.ReminderId[i], Err: moveError(p, i)}
		}
		break
	}
	return became, nil
}

// unmovedOf returns the reminders that could not be moved, from the details of an error; nil if the error is
// about the whole call.
func unmovedOf(err error) *reminderv1.SubscribeReminderResponse {
	for _, d := range status.Convert(err).Details() {
		if p, ok := d.(*reminderv1.SubscribeReminderResponse); ok && len(p.GetResults()) > 0 {
			return p
		}
	}
	return nil
}

func moveError(p *reminderv1.SubscribeReminderResponse, i int) error {
	if i < len(p.GetResults()) {
		if r := p.Results[i]; r.GetCode() != int32(codes.OK) {
			return rousev1.StatusToError(status.New(codes.Code(r.GetCode()), r.GetError()))
		}
	} else if p.ReminderId[i] == "" {
		return errors.New("the service could not move it, and does not say why")
	}
	return nil
}

// errorFromGRPC turns an error of gRPC into one of package rouse.
func errorFromGRPC(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return rousev1.StatusToError(st)
	}
	return err
}
