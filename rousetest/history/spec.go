package history

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// noForm is a Spec to read into: values that are not negative were read.
var noForm = Spec{Delay: -1, Every: -1}

// checkSpecForm refuses a spec that was read over noForm and cannot be understood.
func (s *Spec) checkSpecForm() error {
	forms, every, cron := 0, s.Every >= 0, s.Cron != ""
	for _, is := range [...]bool{s.At != 0, s.Delay >= 0, every, cron} {
		if is {
			forms++
		}
	}
	s.Delay, s.Every = max(s.Delay, 0), max(s.Every, 0)
	switch {
	case forms != 1:
		return fmt.Errorf("%d of at, delay_ms, every_ms and cron, not one", forms)
	case every && s.Every == 0:
		return errors.New("an interval of 0")
	case s.Start != 0 && !every && !cron:
		return errors.New("start belongs to every_ms and cron")
	case len(s.Except)+len(s.Off) > 0 && !every && !cron:
		return errors.New("except and off belong to every_ms and cron")
	case (s.Within != 0) != (s.Misfire == MisfireWithin):
		return errors.New("within_ms belongs to the misfire policy within, which needs it")
	case s.Serial && s.Overlap == OverlapAllow:
		return errors.New("serial contradicts the overlap policy allow")
	case s.LimitKey != "" && s.Limit == "":
		return errors.New("limit_key belongs to limit")
	case (s.TZ != "" || s.DST != "") && !cron:
		return errors.New("tz and dst belong to cron")
	}
	for _, day := range slices.Concat(s.Except, s.Off) {
		if _, err := time.Parse(time.DateOnly, day); err != nil &&
			(slices.Contains(s.Except, day) || !slices.Contains(weekdayNames, day)) {
			return fmt.Errorf("%q is no day", day)
		}
	}
	return errors.Join(s.DST.checkDSTName(), oneOf(s.Misfire, "", MisfireAll, MisfireLatest, MisfireSkip, MisfireWithin),
		oneOf(s.Overlap, "", OverlapWait, OverlapSkip, OverlapAllow))
}

// checkDSTName refuses text that is neither empty, nor a policy's name, nor a pair.
func (p DST) checkDSTName() error {
	if _, _, _, ok := p.dstRules(); !ok && p != "" {
		return fmt.Errorf("%q is none of %q, nor a pair such as \"skip,both\"", p, []DST{Vixie, Naive, SkipOnce, Shift})
	}
	return nil
}
