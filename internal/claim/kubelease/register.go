package kubelease

import "github.com/rousehq/rouse/internal/claim"

func init() {
	claim.RegisterElection("kubernetes", claim.Election{Split: Split,
		New: func(o claim.ElectionOptions) (claim.Elector, error) { return New(Options(o)) }})
}
