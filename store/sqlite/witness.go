package sqlite

import (
	"errors"
	"fmt"
	"os"

	"github.com/rousehq/rouse/internal/witness"
)

// witnessEnd is the suffix of a store's witness (package witness): the file contains the last acknowledged
// revision, which reveals that a log was truncated or removed. A store without a witness gets one.
const witnessEnd = ".witness"

// continueWitness compares the witness of the store with the store's last revision, and continues it.
func (s *Store) continueWitness(o Options, have uint64) error {
	f, err := os.OpenFile(s.path+witnessEnd, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	w, last, err := witness.Open(f)
	if errors.Is(err, witness.ErrUnreadable) {
		last = witness.Note{}
		w, err = witness.New(f, witness.Note{Revision: have})
	}
	if err == nil && have < last.Revision {
		err = s.acceptDamage(o, &damage{fmt.Sprintf("it ends at revision %d, and revision %d was acknowledged", have,
			last.Revision)})
		s.last = max(s.last, last.Revision+revisionGap)
	}
	if err == nil {
		err = errors.Join(w.Write(witness.Note{Revision: have}), w.Sync())
	}
	if err != nil || o.Relaxed {
		return errors.Join(err, f.Close())
	}
	s.witness = w
	return nil
}

// acceptDamage returns damage, unless AcceptLoss is set; then it reports the damage and keeps a copy of the
// log, so that lost data can be searched for.
func (s *Store) acceptDamage(o Options, err error) error {
	if d := new(damage); !errors.As(err, &d) || !o.AcceptLoss {
		return err
	}
	o.Report(fmt.Errorf("accepted: store %s: %w", s.path, err))
	return keepLog(s.path)
}
