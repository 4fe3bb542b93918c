package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"html"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/codec"
	"github.com/rousehq/rouse/internal/timers"
)

// badgeOps are the operations of this file.
type badgeOps interface {
	Badge(ctx context.Context, key rouse.Key) (timers.BadgeState, error)
}

const badgesPath = "/v1/badges/"

// Kinds of badges, by the end of their path.
const (
	badgePicture = ".svg"
	badgeData    = ".json" // for the endpoint badges of shields.io
)

// GetBadge returns the state of a timer, and where its badge is shown to those who have no credentials.
func (f *timersServer) GetBadge(ctx context.Context, r *rousev1.GetBadgeRequest) (*rousev1.Badge, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	state, err := f.timers.Badge(ctx, key)
	if err != nil {
		return nil, err
	}
	text := base64.RawURLEncoding.EncodeToString(appendKey(nil, key))
	if f.opts.Access != nil {
		if text, err = f.opts.Access.Sessions.SealBadge(appendKey(nil, key)); err != nil {
			return nil, err
		}
	}
	return &rousev1.Badge{State: string(state), Path: badgesPath + text + badgePicture}, nil
}

// badgeKey returns the timer of a badge; false if the text is of none. Without access control, it is no
// secret.
func (s *service) badgeKey(text string) (rouse.Key, bool) {
	var subject []byte
	if s.opts.Access != nil {
		subject = s.opts.Access.Sessions.OpenBadge(text)
	} else if b, err := base64.RawURLEncoding.DecodeString(text); err == nil {
		subject = b
	}
	r := codec.Read(subject)
	key := readKey(&r)
	return key, r.Done() && key.Fire == "" && key.Check() == nil
}

var badgeRoutes = []route{
	{method: "GET", path: badgesPath + "{badge}", serve: showBadge, foreign: true,
		summary: "Shows the state of a timer, for pages that cannot send credentials: the path that getBadge returns, or with .json in place of .svg.",
		more: `
parameters:
  - {name: badge, in: path, required: true, schema: {type: string, maxLength: 4096}, description: 'The text for one timer, with .svg or .json.'}
responses:
  "200": {description: 'A picture, or the data of an endpoint badge of shields.io.', content: {image/svg+xml: {schema: {type: string}}, application/json: {schema: {type: object, required: [schemaVersion, label, message, color], properties: {schemaVersion: {type: integer, maximum: 1}, label: {type: string}, message: {type: string}, color: {type: string}}}}}}
  "304": {description: 'It is as in If-None-Match.'}`},
}

// badge is what is shown of a timer.
type badge struct {
	Version int    `json:"schemaVersion"`
	Label   string `json:"label"`
	Message string `json:"message"`
	Color   string `json:"color"`
}

var badgeColors = map[timers.BadgeState]string{timers.BadgeOK: "#3a7d0a", timers.BadgeLate: "#b85c00",
	timers.BadgeFailing: "#b3261e", timers.BadgePaused: "#5c5c5c", timers.BadgeNew: "#1f6fb2"}

// maxBadgeLabel bounds the label of a badge, in characters.
const maxBadgeLabel = 64

func showBadge(f *httpHandler, c *call) error {
	name := c.vars[0]
	text, picture := strings.CutSuffix(name, badgePicture)
	if !picture {
		text = strings.TrimSuffix(name, badgeData)
	}
	key, ok := f.badgeKey(text)
	if !ok || text == name {
		return noBadge()
	}
	state, err := f.timers.Badge(access.AsSystem(c.ctx), key)
	if err != nil {
		if errors.Is(err, rouse.ErrNotFound) {
			return noBadge() // whether the timer existed is not told
		}
		return err
	}
	b := badge{1, key.Name, string(state), badgeColors[state]}
	if utf8.RuneCountInString(b.Label) > maxBadgeLabel {
		b.Label = string([]rune(b.Label)[:maxBadgeLabel-1]) + "…"
	}
	body, contentType, err := b.encodeBadge(picture)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write(body)
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", h.Sum(nil)))
	c.w.Header().Set("Cache-Control", "no-cache")
	c.w.Header().Set("ETag", tag)
	if strings.Contains(c.r.Header.Get("If-None-Match"), tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.writeResponse(http.StatusOK, contentType, body)
	return nil
}

func noBadge() error {
	return fmt.Errorf("there is no such badge: %w", rouse.ErrNotFound)
}

// badgeSVG is the picture, a format of our own, as it is two boxes and two texts. It has no style, which the
// policy of our answers would forbid, and texts are stretched to widths that need no font.
const badgeSVG = `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" role="img" aria-label="%[2]s: %[3]s">` +
	`<title>%[2]s: %[3]s</title>` +
	`<rect width="%[4]d" height="20" fill="#444"/><rect x="%[4]d" width="%[5]d" height="20" fill="%[6]s"/>` +
	`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">` +
	`<text x="5" y="14" textLength="%[7]d" lengthAdjust="spacingAndGlyphs">%[2]s</text>` +
	`<text x="%[8]d" y="14" textLength="%[9]d" lengthAdjust="spacingAndGlyphs">%[3]s</text></g></svg>`

// encodeBadge returns the badge as a picture or as data, with its content type.
func (b *badge) encodeBadge(picture bool) (body []byte, contentType string, err error) {
	if !picture {
		body, err = api.Encode(b)
		return body, jsonType, err
	}
	const wide, margin = 7, 5 // of a character, and of each side
	label, message := wide*utf8.RuneCountInString(b.Label), wide*len(b.Message)
	return fmt.Appendf(nil, badgeSVG, label+message+4*margin, html.EscapeString(b.Label), html.EscapeString(b.Message),
		label+2*margin, message+2*margin, b.Color, label, label+3*margin, message), "image/svg+xml", nil
}
