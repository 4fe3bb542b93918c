package api

import (
	"strings"

	"github.com/rousehq/rouse"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is an error as RFC 9457 has it. Code is stable, and the same as over gRPC in lower case; Status and
// Title follow from it, and so does Type, which leads to its description.
type Problem struct {
	Type   string  `json:"type" schema:"format=uri"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitzero"`
	Code   string  `json:"code"` // stable
	Errors []Fault `json:"errors,omitempty"`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Field  string `json:"field"` // dotted path, such as "retry.attempts" or "timers[3].schedule"
	Value  string `json:"value,omitzero"`
	Detail string `json:"detail"`
	Cure   string `json:"cure,omitzero"`
}

// MaxFaults bounds the faults in a Problem; the rest is counted.
const MaxFaults = 32

// FaultsOf returns the faults of an invalid input.
func FaultsOf(inv *rouse.Invalid) []Fault {
	faults := make([]Fault, 0, min(len(inv.Problems), MaxFaults))
	for _, p := range inv.Problems[:min(len(inv.Problems), MaxFaults)] {
		faults = append(faults, Fault{p.Field, p.Value, p.Wrong, p.Cure})
	}
	return faults
}

// Error returns the problem as a text of one line.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return strings.ToLower(p.Title) + ": " + p.Detail
}
