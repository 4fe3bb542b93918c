package note

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

type body struct{ Text string }

func open(s Store) *Notes {
	return &Notes{Store: s, Namespace: "ns", Prefix: "\x01test/", Buckets: 4, Patience: time.Second}
}

func TestWritesAreConditional(t *testing.T) {
	s := mem.New()
	defer s.Close()
	notes := open(s)
	put := func(w ...Write) []rouse.Result {
		t.Helper()
		res, err := notes.Put(t.Context(), w...)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := put(Write{"a", body{"1"}, rouse.NoRow}, Write{"b", body{"2"}, rouse.NoRow})
	if again := put(Write{"a", body{"x"}, rouse.NoRow}); again[0].Applied {
		t.Errorf("a note was made over another: %+v", again[0])
	}
	put(Write{"a", body{"3"}, first[0].Revision}, Write{"b", nil, first[1].Revision})
	put(Write{"a", body{"x"}, first[0].Revision}) // by a revision that is not the last
	got, err := notes.Get(t.Context(), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	a, b := body{}, body{"untouched"}
	if err := errors.Join(got[0].Read(&a), got[1].Read(&b)); err != nil || a.Text != "3" || b.Text != "untouched" || got[1].Revision != 0 {
		t.Errorf("%+v %+v %+v %v", got, a, b, err)
	}
	if err := got[0].Read(new(int)); err == nil || !strings.Contains(err.Error(), "the note a") {
		t.Errorf("a note of another form: %v", err)
	}
	put(Write{"a", nil, rouse.AnyRevision})
	if got, err := notes.Get(t.Context(), "a"); err != nil || got[0].Revision != 0 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := notes.Put(t.Context(), Write{"a", func() {}, rouse.AnyRevision}); err == nil {
		t.Error("a function was written")
	}
}

func TestListGivesAllOfAPrefixAndNothingElse(t *testing.T) {
	s := mem.New()
	defer s.Close()
	notes := open(s)
	var writes []Write
	for i := range 2*pageNotes + 3 {
		writes = append(writes, Write{fmt.Sprintf("x||%05d", i), body{fmt.Sprint(i)}, rouse.NoRow})
	}
	if _, err := notes.Put(t.Context(), append(writes, Write{"y||0", body{}, rouse.NoRow})...); err != nil {
		t.Fatal(err)
	}
	timer := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: "x||"}, Visible: rouse.Never}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: timer.Key, To: &timer}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := notes.List(t.Context(), "x||", func(note Note) error {
		var b body
		if err := note.Read(&b); err != nil || note.Name != fmt.Sprintf("x||%05d", n) || b.Text != fmt.Sprint(n) {
			t.Errorf("%d: %+v %v", n, note, err)
		}
		n++
		return nil
	})
	if err != nil || n != len(writes) {
		t.Errorf("%d notes, %v", n, err)
	}
	stop := errors.New("enough")
	if err := notes.List(t.Context(), "", func(Note) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// deaf does not answer.
type deaf struct{}

func (deaf) Get(ctx context.Context, _ []rouse.Key) ([]rouse.Row, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (deaf) List(ctx context.Context, _ rouse.Query) (rouse.Page, error) {
	<-ctx.Done()
	return rouse.Page{}, ctx.Err()
}
func (deaf) Apply(ctx context.Context, _ []rouse.Change) ([]rouse.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAStoreThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := open(deaf{})
		began := time.Now()
		_, get := notes.Get(t.Context(), "a")
		list := notes.List(t.Context(), "", nil)
		_, put := notes.Put(t.Context(), Write{"a", 1, rouse.AnyRevision})
		for _, err := range []error{get, list, put} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("three calls took %v", d)
		}
	})
}
