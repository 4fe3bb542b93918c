package access

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Role is a named list of verbs.
type Role struct {
	Name  string
	Verbs []Verb
}

var (
	readerVerbs = []Verb{TimersRead, CalendarsRead, LimitsRead, NamespacesRead, NodesRead, ClockRead}
	writerVerbs = append([]Verb{Reveal, TimersCreate, TimersDelete, TimersPause, TimersRun, TimersSkip, TimersReschedule,
		ChecksReport, CallsCall}, readerVerbs...)
	operVerbs = append([]Verb{TimersDelete, TimersPause, TimersRun, TimersSkip, TimersReschedule, TimersBackfill,
		TimersBulk, DeadRedrive,
		DeadPurge, CalendarsWrite, LimitsWrite, MetricsRead, StatusRead, PoolsRead, PoolsOperate}, readerVerbs...)
)

// builtIn are the roles that always exist. Custom roles have other names.
var builtIn = []Role{
	{"reader", readerVerbs},
	{"writer", writerVerbs},
	{"operator", operVerbs},
	{"worker", []Verb{FiresSubscribe, FiresReport, ChecksReport}},
	{Sidecar, []Verb{RemindersUse, DaprUse}},
	{"admin", Verbs},
}

func isBuiltIn(role string) bool {
	return slices.ContainsFunc(builtIn, func(b Role) bool { return b.Name == role })
}

// Sidecar is the role that Dapr's sidecars have in the namespace of their certificate.
const Sidecar = "sidecar"

// MaxRoles bounds the custom roles.
const MaxRoles = 200

// Check refuses a role that cannot be stored.
func (r *Role) Check() error {
	if err := rouse.CheckNamespace(r.Name); err != nil {
		return rouse.Refuse("role", r.Name, "is no name of a role",
			"use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	if isBuiltIn(r.Name) {
		return rouse.Refuse("role", r.Name, "is a role of rouse's own", "use another name")
	}
	if len(r.Verbs) == 0 {
		return rouse.Refuse("verbs", "", "is missing", "give at least one: "+allVerbs())
	}
	for i, v := range r.Verbs {
		if !slices.Contains(Verbs, v) {
			return rouse.Refuse(fmt.Sprintf("verbs[%d]", i), string(v), "is no verb", "give one of "+allVerbs())
		}
		if slices.Contains(r.Verbs[:i], v) {
			return rouse.Refuse("verbs["+strconv.Itoa(i)+"]", string(v), "is given twice", "give it once")
		}
	}
	return nil
}

func allVerbs() string {
	names := make([]string, len(Verbs))
	for i, v := range Verbs {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

// rolebook has the verbs of roles by their names. It does not change.
type rolebook map[string]map[Verb]bool

// newRolebook returns the built-in roles and the custom ones.
func newRolebook(custom []Role) rolebook {
	book := rolebook{}
	for _, r := range slices.Concat(custom, builtIn) { // the built-in ones win
		verbs := map[Verb]bool{}
		for _, v := range r.Verbs {
			verbs[v] = true
		}
		book[r.Name] = verbs
	}
	return book
}

// grantsVerb reports whether a grant has a verb somewhere.
func (b rolebook) grantsVerb(g *Grant, v Verb) bool {
	return b[g.Role][v] && (len(g.Scope.Apps) == 0 || byApp[v])
}

// sortedRoles returns the book's roles in the order of their names.
func (b rolebook) sortedRoles() []Role {
	var out []Role
	for _, name := range slices.Sorted(maps.Keys(b)) {
		out = append(out, Role{name, slices.Sorted(maps.Keys(b[name]))})
	}
	return out
}
