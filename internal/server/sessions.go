package server

import (
	"context"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// listPeople returns a page of the people with sessions and the token of the next one, which is the last
// principal.
func (s *service) listPeople(ctx context.Context, prefix string, asked uint32,
	token string) ([]access.Person, string, error) {
	g, err := s.requireGate()
	if err != nil {
		return nil, "", err
	}
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	return g.Sessions.People(ctx, prefix, token, size)
}

func (f *accessServer) ListSessions(ctx context.Context,
	r *rousev1.ListSessionsRequest) (*rousev1.ListSessionsResponse, error) {
	people, next, err := f.listPeople(ctx, r.Prefix, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListSessionsResponse{NextPageToken: next}
	for _, p := range people {
		one := &rousev1.Person{Principal: p.Principal, Name: p.Name}
		for _, s := range p.Sessions {
			one.Sessions = append(one.Sessions, &rousev1.PersonSession{BeganMs: int64(instantOf(s.Began)),
				ExpiresMs: int64(instantOf(s.Expires))})
		}
		out.People = append(out.People, one)
	}
	return out, nil
}

func (f *accessServer) EndSessions(ctx context.Context,
	r *rousev1.EndSessionsRequest) (*rousev1.EndSessionsResponse, error) {
	g, err := f.requireGate()
	if err == nil {
		err = g.Sessions.EndAll(ctx, r.Principal)
	}
	if err != nil {
		return nil, err
	}
	return &rousev1.EndSessionsResponse{}, nil
}

// rotateSessionKey makes a new key of sessions, if there can be any.
func (s *service) rotateSessionKey(ctx context.Context) error {
	if _, err := s.requireGate(); err != nil {
		return err
	}
	ops, err := s.requireSecrets()
	if err != nil {
		return err
	}
	return s.timers.DoOnce(ctx, "", []any{access.SessionsRotate}, ops.RotateSessionKey)
}

func (f *accessServer) RotateSessionKey(ctx context.Context,
	_ *rousev1.RotateSessionKeyRequest) (*rousev1.RotateSessionKeyResponse, error) {
	return &rousev1.RotateSessionKeyResponse{}, f.rotateSessionKey(ctx)
}

func rotateSessionKey(f *httpHandler, c *call) error {
	c.r = c.r.WithContext(context.WithoutCancel(c.r.Context())) // it may end the session of this request
	return c.replyNoContent(f.rotateSessionKey(c.ctx))
}
