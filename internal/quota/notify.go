package quota

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// PutNotify replaces the rules by which timers of a namespace notify. revision is the one that the namespace
// must have, rouse.NoRow or rouse.AnyRevision; one that does not exist is created. The caller needs the right
// to create all timers of the namespace, as it could give a target of notices to each of them, and to create
// a namespace, if there is none. Nodes obey a change within two seconds.
func (b *Book) PutNotify(ctx context.Context, name string, rules []rouse.NotifyRule,
	revision uint64) (rouse.Namespace, error) {
	err := cmp.Or(rouse.CheckNamespace(name), b.opts.Access.Require(ctx, access.TimersCreate, name, "", nil),
		b.opts.Access.Require(ctx, access.TimersRead, name, "", nil), // which the answer needs
		rouse.CheckNotifyRules(rules))
	if err == nil && b.opts.CheckNotify != nil {
		err = b.opts.CheckNotify(ctx, name, rules)
	}
	if err == nil && !b.Exists(name) && !b.opts.Access.Allows(ctx, access.NamespacesWrite, "", "", nil) {
		_, err = b.findNamespace(name)
	}
	if err != nil {
		return rouse.Namespace{}, err
	}
	return b.changeNamespace(ctx, name, revision, func(s *stored) { s.Notify = rules })
}

// NotifyRules returns the rules of a namespace, as this node knows them. They must not be changed.
func (b *Book) NotifyRules(namespace string) []rouse.NotifyRule {
	if b.notifying.Load() == 0 {
		return nil
	}
	rules, _ := b.notify.Load(namespace)
	list, _ := rules.([]rouse.NotifyRule)
	return list
}

// setNotifyRules sets the rules of a namespace, with b.mu.
func (b *Book) setNotifyRules(namespace string, rules []rouse.NotifyRule) {
	had := false
	if len(rules) == 0 {
		_, had = b.notify.LoadAndDelete(namespace)
	} else {
		_, had = b.notify.Swap(namespace, rules)
		b.notifying.Add(1)
	}
	if had {
		b.notifying.Add(-1)
	}
}
