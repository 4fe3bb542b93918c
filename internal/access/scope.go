package access

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Grant is a role within a scope.
type Grant struct {
	Role  string `json:"role"`
	Scope Scope  `json:"scope"`
}

// Scope is the set of timers that a grant covers. Its patterns are exact texts, or prefixes that end with
// '*'; "*" alone matches everything.
type Scope struct {
	Namespaces []string          `json:"namespaces"`        // at least one
	Targets    []string          `json:"targets,omitempty"` // empty: all
	Labels     map[string]string `json:"labels,omitempty"`  // that a timer must have; empty: none
	// as which sidecars may act; empty: all. With some, a grant gives nothing but that
	Apps []string `json:"apps,omitempty"`
}

// Bounds of grants.
const (
	MaxGrants   = 16 // of a principal
	MaxPatterns = 32 // of namespaces, of targets, and of apps, in one scope
	maxPattern  = 2048
	maxApp      = 128 // bytes of the id of an app
)

// Everything is the scope without limits.
func Everything() Scope { return Scope{Namespaces: []string{"*"}} }

// Check refuses a scope that means nothing, or less than it seems to.
func (s *Scope) Check() error {
	if len(s.Namespaces) == 0 {
		return rouse.Refuse("scope.namespaces", "", "is missing", `name at least one namespace, or "*" for all`)
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"namespaces", s.Namespaces}, {"targets", s.Targets}, {"apps", s.Apps}} {
		if len(list.patterns) > MaxPatterns {
			return rouse.Refuse("scope."+list.name, strconv.Itoa(len(list.patterns)), "are too many",
				fmt.Sprintf("give at most %d", MaxPatterns))
		}
	}
	for i, p := range s.Namespaces {
		fixed, prefix := strings.CutSuffix(p, "*")
		if prefix && fixed == "" {
			continue
		}
		if err := rouse.CheckNamespace(fixed); err != nil {
			return rouse.Refuse(fmt.Sprintf("scope.namespaces[%d]", i), p, "matches no namespace",
				`give a namespace, the beginning of some with "*" after it, or "*"`)
		}
	}
	for i, p := range s.Targets {
		if err := checkTarget(fmt.Sprintf("scope.targets[%d]", i), p); err != nil {
			return err
		}
	}
	for i, p := range s.Apps {
		if p == "" || len(p) > maxApp || strings.Contains(strings.TrimSuffix(p, "*"), "*") {
			return rouse.Refuse(fmt.Sprintf("scope.apps[%d]", i), rouse.Shorten(p, maxApp), "matches no app",
				fmt.Sprintf(`give the id of an app, of at most %d bytes, or the beginning of some with "*" after it`, maxApp))
		}
	}
	return (&rouse.Query{Labels: s.Labels}).Check()
}

// checkTarget refuses a pattern of targets. A prefix of a URL must include the whole host: https://a.example*
// also matches https://a.example.other.example/.
func checkTarget(field, pattern string) error {
	fixed, prefix := strings.CutSuffix(pattern, "*")
	scheme, rest, ok := strings.Cut(fixed, ":")
	switch {
	case prefix && fixed == "":
		return nil
	case len(pattern) > maxPattern || !ok || scheme == "" || strings.Contains(fixed, "*"):
		return rouse.Refuse(field, pattern, "matches no target",
			`give a target, or the beginning of some with "*" after it, such as stream:mail or https://hooks.example.com/*`)
	case prefix && strings.HasPrefix(rest, "//") && !strings.Contains(rest[2:], "/"):
		return rouse.Refuse(field, pattern, "ends within the host, so that it matches other hosts, too",
			`write "/*" after the host`)
	}
	return nil
}

// matchesAnyPattern reports whether one of the patterns matches.
func matchesAnyPattern(patterns []string, s string) bool {
	for _, p := range patterns {
		if fixed, prefix := strings.CutSuffix(p, "*"); prefix && strings.HasPrefix(s, fixed) || p == s {
			return true
		}
	}
	return false
}

// hasAllTimers reports whether the scope has all targets and labels of its namespaces.
func (s *Scope) hasAllTimers() bool {
	return (len(s.Targets) == 0 || slices.Contains(s.Targets, "*")) && len(s.Labels) == 0
}

// touchesNamespace reports whether some of a namespace is in the scope.
func (s *Scope) touchesNamespace(namespace string) bool {
	return matchesAnyPattern(s.Namespaces, namespace)
}

// includesTimer reports whether a timer with the target and the labels is in the scope. An empty namespace or
// target is matched by "*" only.
func (s *Scope) includesTimer(namespace, target string, labels map[string]string) bool {
	if !s.touchesNamespace(namespace) || len(s.Targets) > 0 && !matchesAnyPattern(s.Targets, target) {
		return false
	}
	for k, v := range s.Labels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// hasApp reports whether sidecars may act as an app in a namespace; "*" is every app. Their jobs are not
// limited by targets or labels, so a scope with such limits has none.
func (s *Scope) hasApp(namespace, app string) bool {
	return s.includesTimer(namespace, "", nil) && (len(s.Apps) == 0 || matchesAnyPattern(s.Apps, app))
}

// coversScope reports whether everything in the scope other is in this one.
func (s *Scope) coversScope(other *Scope) bool {
	within := func(wide, narrow []string) bool {
		return !slices.ContainsFunc(narrow, func(p string) bool {
			return !slices.ContainsFunc(wide, func(w string) bool {
				fixed, prefix := strings.CutSuffix(w, "*")
				return w == p || prefix && strings.HasPrefix(strings.TrimSuffix(p, "*"), fixed)
			})
		})
	}
	limits := func(wide, narrow []string) bool { return len(wide) == 0 || len(narrow) > 0 && within(wide, narrow) }
	if !within(s.Namespaces, other.Namespaces) || !limits(s.Targets, other.Targets) || !limits(s.Apps, other.Apps) {
		return false
	}
	for k, v := range s.Labels {
		if have, ok := other.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func (s *Scope) String() string {
	text := "namespaces " + strings.Join(s.Namespaces, ", ")
	if len(s.Targets) > 0 {
		text += "; targets " + strings.Join(s.Targets, ", ")
	}
	if len(s.Apps) > 0 {
		text += "; apps " + strings.Join(s.Apps, ", ")
	}
	for i, k := range slices.Sorted(maps.Keys(s.Labels)) {
		text += map[bool]string{true: "; labels ", false: ", "}[i == 0] + k + "=" + s.Labels[k]
	}
	return text
}
