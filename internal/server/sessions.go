package server

import (
	"context"
	"net/http"

	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// people returns a page of the people with sessions and the token of the next one, which is the last
// principal.
func (s *service) people(ctx context.Context, prefix string, asked uint32, token string) ([]access.Person, string, error) {
	g, err := s.gate()
	if err != nil {
		return nil, "", err
	}
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	return g.Sessions.People(ctx, prefix, token, size)
}

func (f *accessServer) ListSessions(ctx context.Context, r *rousev1.ListSessionsRequest) (*rousev1.ListSessionsResponse, error) {
	people, next, err := f.people(ctx, r.Prefix, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListSessionsResponse{NextPageToken: next}
	for _, p := range people {
		one := &rousev1.Person{Principal: p.Principal, Name: p.Name}
		for _, s := range p.Sessions {
			one.Sessions = append(one.Sessions, &rousev1.PersonSession{BeganMs: int64(instantOf(s.Began)), ExpiresMs: int64(instantOf(s.Expires))})
		}
		out.People = append(out.People, one)
	}
	return out, nil
}

func (f *accessServer) EndSessions(ctx context.Context, r *rousev1.EndSessionsRequest) (*rousev1.EndSessionsResponse, error) {
	g, err := f.gate()
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
	if _, err := s.gate(); err != nil {
		return err
	}
	ops, err := s.secrets()
	if err != nil {
		return err
	}
	return s.timers.DoOnce(ctx, "", []any{access.SessionsRotate}, ops.RotateSessionKey)
}

func (f *accessServer) RotateSessionKey(ctx context.Context, _ *rousev1.RotateSessionKeyRequest) (*rousev1.RotateSessionKeyResponse, error) {
	return &rousev1.RotateSessionKeyResponse{}, f.rotateSessionKey(ctx)
}

const sessionsPath = "/v1/sessions"

var personRoutes = []route{
	{method: "GET", path: sessionsPath, serve: listSessions, rpc: "Access/ListSessions", params: append([]string{"prefix"}, pageNames...),
		answer: api.PersonList{}, summary: "Lists the people who signed in to the console at an issuer, with their sessions.", means: "A page."},
	{method: "POST", path: sessionsPath + ":end", serve: endSessions, rpc: "Access/EndSessions", body: api.EndSessions{},
		summary: "Ends all sessions of a person. All nodes refuse them within five seconds, and end their streams.", means: "They have ended."},
	{method: "POST", path: sessionsPath + ":rotate-key", repeats: withKey, serve: rotateSessionKey, rpc: "Access/RotateSessionKey",
		summary: "Makes a new key of sessions: all sessions of the console end, those of keys, too. All nodes refuse them within five seconds, and end their streams.", means: "It is rotated."},
}

func listSessions(f *httpHandler, c *call) error {
	size, token, err := c.params.page()
	if err != nil {
		return err
	}
	people, next, err := f.people(c.ctx, c.params.text("prefix"), size, token)
	if err != nil {
		return err
	}
	out := api.PersonList{People: make([]api.Person, len(people)), NextPageToken: next}
	for i, p := range people {
		out.People[i] = api.Person{Principal: p.Principal, Name: p.Name}
		for _, s := range p.Sessions {
			out.People[i].Sessions = append(out.People[i].Sessions, api.PersonSession{Began: api.TimeOf(instantOf(s.Began)), Expires: api.TimeOf(instantOf(s.Expires))})
		}
	}
	return c.reply(http.StatusOK, out)
}

func endSessions(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	var body api.EndSessions
	if err := c.whole(&body); err != nil {
		return err
	}
	return c.done(g.Sessions.EndAll(c.ctx, body.Principal))
}

func rotateSessionKey(f *httpHandler, c *call) error {
	c.r = c.r.WithContext(context.WithoutCancel(c.r.Context())) // it may end the session of this request
	return c.done(f.rotateSessionKey(c.ctx))
}
