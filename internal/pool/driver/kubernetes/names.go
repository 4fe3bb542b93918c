package kubernetes

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Labels and annotations of what this driver makes. Those of workloads are on their pods, too.
const (
	labelManagedBy = "app.kubernetes.io/managed-by" // rouse
	labelInstance  = "rouse/instance"
	labelPool      = "rouse/pool"  // a hash of it if it cannot be a label
	labelSet       = "rouse/set"   // a hash of the instance and the pool: what lists select by
	labelGroup     = "rouse/group" // the name of the workload
	labelTurn      = "rouse/turn"  // of the workload
	annotationPool = "rouse/pool"
	annotationKey  = "rouse/key" // percent-encoded, so that any bytes fit
	annotationHash = "rouse/spec-hash"
	annotationMode = "rouse/scaling" // by what the workload is scaled: none, hpa or keda

	ownPrefix = "rouse/" // of the above
	managedBy = "rouse"
)

// A name is a label of DNS: letters, digits and -, at most 63. What controllers derive from it must fit as well: a StatefulSet puts its
// name, a dash and ten characters into a label of its pods, and KEDA puts keda-hpa- before the name of a scaler, which has a turn at
// its end, in one of a HorizontalPodAutoscaler.
const (
	longestName = 44
	hashLength  = 26 // of base32: 130 bits
	slugLength  = (longestName - hashLength - 2) / 2
	turnLength  = 6
)

// nameOf returns the name of the workload of a key: the beginnings of pool and key, for people, and a hash of all, which tells any two
// from each other.
func nameOf(instance, pool, key string) string {
	var parts []string
	for _, text := range []string{pool, key} {
		if s := slug(text); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(append(parts, hash(instance, pool, key)), "-")
}

// setOf returns what the labels of all that belongs to a pool of an instance have.
func setOf(instance, pool string) string { return hash(instance, pool) }

// hash returns letters and digits that no other texts have.
func hash(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:hashLength]
}

// slug returns what of the beginning of a text may be in a name.
func slug(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case b.Len() == slugLength:
			return strings.Trim(b.String(), "-")
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			b.WriteByte(c)
		case 'A' <= c && c <= 'Z':
			b.WriteByte(c - 'A' + 'a')
		default:
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}

// labelOr returns a text if it can be the value of a label, and else a hash of it.
func labelOr(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	return hash(text)
}

// encodeKey writes a key in the characters that it may have everywhere; decodeKey reads it.
func encodeKey(key string) string { return url.PathEscape(key) }

func decodeKey(text string) (string, bool) {
	key, err := url.PathUnescape(text)
	return key, err == nil
}
