package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestShots writes pictures of the views into the directory ROUSE_SHOTS, in each look.
func TestShots(t *testing.T) {
	if os.Getenv("ROUSE_SHOTS") == "" {
		t.Skip("ROUSE_SHOTS is not set")
	}
	b, w := openBrowser(t), newSample(t)
	only := os.Getenv("ROUSE_SHOT")
	for _, l := range looks {
		p := b.tab(t, w.url, l)
		for _, path := range w.paths() {
			name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", "&", "-", "%", "", "*", "", "+", "", " ", "").Replace(path), "-")
			if name == "" {
				name = "now"
			}
			if only != "" && !strings.Contains(name, only) {
				continue
			}
			p.open(path)
			p.shoot(name, l)
		}
		for _, c := range p.complaints() {
			t.Error(c)
		}
	}
}

// shoot writes a picture of what the page shows into the directory ROUSE_SHOTS, if that is set.
func (p *tab) shoot(name string, l look) {
	p.t.Helper()
	dir := os.Getenv("ROUSE_SHOTS")
	if dir == "" {
		return
	}
	shot := chromedp.FullScreenshot(100)
	if os.Getenv("ROUSE_SHOT_SCREEN") != "" { // what is on the screen only
		shot = chromedp.CaptureScreenshot()
	}
	png, err := chromedp.Run(p.ctx, shot)
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, l.scheme, l.wide))
	if err := os.WriteFile(file, png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
