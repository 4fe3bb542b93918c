package setting

import (
	"testing"
	"time"
)

type inner struct {
	Wait time.Duration `name:"wait" default:"90s" help:"How long."`
	None int           // no setting
}

type outer struct {
	inner
	Count int    `name:"count" default:"3"`
	Plain string // no setting
}

func TestSettings(t *testing.T) {
	var o outer
	list := Of(&o)
	if len(list) != 2 || list[0].Name != "wait" || list[1].Name != "count" || list[0].Help != "How long." {
		t.Fatalf("%+v", list)
	}
	for _, s := range list {
		if err := s.Parse(s.Default); err != nil {
			t.Error(err)
		}
	}
	if o.Wait != 90*time.Second || o.Count != 3 || list[0].Text() != "1m30s" {
		t.Errorf("%+v, %s", o, list[0].Text())
	}
	if err := list[1].Parse("many"); err == nil || o.Count != 3 {
		t.Errorf("%v; it is %d", err, o.Count)
	}
}
