package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheDockerfile checks what can be checked without an engine: images are from scratch and run without
// root, the binary is built as those of archives are, and each file that is copied is one that the first
// stage makes or its image has.
func TestTheDockerfile(t *testing.T) {
	body, err := os.ReadFile("../../packaging/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(body), "\\\n", " ")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(text, -1)[1:]
	if len(stages) != 3 {
		t.Fatalf("%d stages, not one that builds and two images", len(stages))
	}
	made := map[string]bool{"/etc/ssl/certs/ca-certificates.crt": true} // of the image of Go
	for _, m := range regexp.MustCompile(`(?: -o|mkdir -m 0700) (/\S+)`).FindAllStringSubmatch(stages[0], -1) {
		made[m[1]] = true
	}
	flags := regexp.MustCompile(`(?m)^STRIPPED = (.*) -ldflags="(.*)-X`).FindSubmatch(makefile)
	if flags == nil || !strings.Contains(stages[0], string(flags[1])+` -ldflags="`+string(flags[2])+"-X main.release=${VERSION}") {
		t.Errorf("the image is not built with the flags of the Makefile, %s", flags)
	}
	for _, s := range stages[1:] {
		if !strings.HasPrefix(s, "scratch") || !regexp.MustCompile(`(?m)^USER 65532:65532$`).MatchString(s) || !regexp.MustCompile(`(?m)^ENTRYPOINT \["/\w+"\]$`).MatchString(s) {
			t.Errorf("this image is not from scratch, runs as root, or by a shell:\n%s", s)
		}
		there := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^COPY --from=build (?:--chown=\S+ )?(\S+) (\S+)$`).FindAllStringSubmatch(s, -1) {
			if there[m[2]] = true; !made[m[1]] {
				t.Errorf("there is no %s to copy", m[1])
			}
		}
		if entry := regexp.MustCompile(`ENTRYPOINT \["(.*)"\]`).FindStringSubmatch(s); entry != nil && !there[entry[1]] {
			t.Errorf("the image has no %s", entry[1])
		}
	}
}
