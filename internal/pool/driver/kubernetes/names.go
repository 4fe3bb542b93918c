package kubernetes

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"

	"github.com/rousehq/rouse/internal/kubelink"
)

// Labels and annotations of the driver's objects. Those of workloads are also on their pods.
const (
	labelManagedBy = "app.kubernetes.io/managed-by" // rouse
	labelInstance  = "rouse/instance"
	labelPool      = "rouse/pool"      // a hash of it if it cannot be a label
	labelSet       = "rouse/set"       // a hash of the instance and the pool; lists select by it
	labelGroup     = "rouse/group"     // the name of the workload
	labelOf        = "rouse/namespace" // of the group, if it is one of a namespace; a hash of it if it cannot be a label
	labelTurn      = "rouse/turn"      // of the workload
	annotationPool = "rouse/pool"
	annotationKey  = "rouse/key" // percent-encoded, as it may contain any bytes
	annotationHash = "rouse/spec-hash"
	annotationMode = "rouse/scaling" // how the workload is scaled: none, hpa or keda

	ownPrefix = "rouse/" // prefix of the above
	managedBy = "rouse"
)

// A name is a DNS label: letters, digits and -, at most 63. Names that controllers derive from it must fit as
// well: a StatefulSet adds a dash and ten characters in a label of its pods, and KEDA adds keda-hpa- to the
// name of a scaler, which ends with a turn, for its HorizontalPodAutoscaler.
const (
	longestName = 44
	hashLength  = 26 // of base32: 130 bits
	slugLength  = (longestName - hashLength - 2) / 2
	turnLength  = 6
)

// workloadName returns the name of the workload of a key: prefixes of pool and key for readers, and a hash of
// all, which makes it unique.
func workloadName(instance, pool, key string) string {
	var parts []string
	for _, text := range []string{pool, key} {
		if s := nameSlug(text); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(append(parts, hashTexts(instance, pool, key)), "-")
}

// setOf returns the value of the label that all objects of a pool of an instance share.
func setOf(instance, pool string) string { return hashTexts(instance, pool) }

// hashTexts returns a hash of texts in letters and digits.
func hashTexts(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:hashLength]
}

// nameSlug returns a prefix of a text with only the characters that a name may contain.
func nameSlug(text string) string {
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

// labelOr returns a text if it is a valid value of a label, and otherwise a hash of it.
func labelOr(text string) string {
	if kubelink.IsLabelValue(text) {
		return text
	}
	return hashTexts(text)
}

// encodeKey encodes a key for an annotation; decodeKey decodes it.
func encodeKey(key string) string { return url.PathEscape(key) }

func decodeKey(text string) (string, bool) {
	key, err := url.PathUnescape(text)
	return key, err == nil
}
