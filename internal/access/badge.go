package access

import "time"

// forBadge is the use of texts that show badges.
var forBadge = []byte("badge")

// badgeTime is how long the text of a badge lasts: a new key of sessions ends all of them before.
const badgeTime = 100 * 365 * 24 * time.Hour

// SealBadge returns a text that shows the badge of what the subject names, and nothing else, without
// credentials.
func (s *Sessions) SealBadge(subject []byte) (string, error) {
	return s.sealText(subject, time.Now().Add(badgeTime), forBadge)
}

// OpenBadge returns the subject of a text of SealBadge; nil if it is none.
func (s *Sessions) OpenBadge(text string) []byte { return s.openSealed(text, time.Now(), forBadge) }
