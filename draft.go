package rouse

import "slices"

// draftVersion is the first byte of the body of a draft.
const draftVersion = 'J'

// A draft is a row whose writer cannot encode a timer, such as a database function in its caller's
// transaction. Its body is one version byte and the JSON form of a spec. It is due at once, so that an engine
// claims it and turns it into a timer. Its Due is when it was written: delays and intervals count from there.

// DraftRow returns the row of a draft.
func DraftRow(key Key, bucket uint32, spec []byte, now Instant) Row {
	return Row{Key: key, Bucket: bucket, Visible: now, Due: now, State: StateScheduled,
		Body: append([]byte{draftVersion}, spec...)}
}

// DraftSpec returns the JSON of a draft's spec; false if the row is no draft.
func DraftSpec(row *Row) ([]byte, bool) {
	if len(row.Body) == 0 || row.Body[0] != draftVersion || row.Key.Fire != "" {
		return nil, false
	}
	return row.Body[1:], true
}

// Unreadable returns a paused timer in place of an invalid draft, or of a row that this version cannot read.
// Its reason contains the error, so that an operator can inspect, replace or delete it.
func Unreadable(row *Row, why error) Timer {
	t := Timer{Key: row.Key, Bucket: row.Bucket, Generation: row.Generation, Revision: row.Revision, Paused: true,
		PauseCause: PauseUnreadable, Reason: CleanText(why.Error(), MaxDetail),
		Due: Never, Visible: Never, Live: row.State == StateFiring, Spec: Spec{Target: "unreadable:", Labels: row.Labels}}
	if spec, ok := DraftSpec(row); ok {
		t.Created, t.Updated, t.Anchor = row.Due, row.Due, row.Due
		t.Spec = Spec{Target: draftTarget, ContentType: "application/json", Payload: slices.Clone(spec)}
	}
	return t
}

const draftTarget = "draft:"

// IsDraft reports whether the timer is an invalid draft.
func (t *Timer) IsDraft() bool { return t.Spec.Target == draftTarget }
