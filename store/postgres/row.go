package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/rousehq/rouse"
)

// columns are the columns of a row, in the order of scanRow.
const columns = `t.bucket, t.visible, t.namespace, t.name, t.fire, t.revision, t.generation, t.state, t.due, t.criticality, t.labels, t.body`

// columnCount is their number.
const columnCount = 12

// scanRow parses a row. It copies the bytes it keeps.
func scanRow(v [][]byte, to *rouse.Row) error {
	if len(v) < columnCount {
		return errShort
	}
	*to = rouse.Row{
		Bucket:      uint32(readInt(v[0])),
		Visible:     rouse.Instant(readInt(v[1])),
		Key:         rouse.Key{Namespace: string(v[2]), Name: string(v[3]), Fire: string(v[4])},
		Revision:    uint64(readInt(v[5])),
		Generation:  uint64(readInt(v[6])),
		State:       rouse.State(readInt(v[7])),
		Due:         rouse.Instant(readInt(v[8])),
		Criticality: uint8(readInt(v[9])),
	}
	if b := v[10]; len(b) > 1 { // jsonb is sent as text with a version in front
		if err := json.Unmarshal(b[1:], &to.Labels); err != nil {
			return fmt.Errorf("the labels of %v: %w", to.Key, err)
		}
	}
	if v[11] != nil {
		to.Body = append(make([]byte, 0, len(v[11])), v[11]...)
	}
	return nil
}

// writeLabels returns labels as JSON, "" for none.
func writeLabels(labels map[string]string) (string, error) {
	if len(labels) == 0 {
		return "", nil
	}
	b, err := json.Marshal(labels)
	return string(b), err
}

// keyArrays returns keys as three parameters.
func keyArrays(keys []rouse.Key) (namespaces, names, fires *array) {
	namespaces, names, fires = newTextArray(len(keys), 16), newTextArray(len(keys), 32), newTextArray(len(keys), 0)
	for i := range keys {
		namespaces.appendString(keys[i].Namespace)
		names.appendString(keys[i].Name)
		fires.appendString(keys[i].Fire)
	}
	return namespaces, names, fires
}
