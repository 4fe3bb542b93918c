package move

import (
	"strings"
	"testing"
)

// TestYAMLScalars: plain values are those of YAML 1.2's core schema, numbers with all of their digits. What
// YAML 1.1 reads otherwise is a text there, or is refused, but never another value.
func TestYAMLScalars(t *testing.T) {
	for in, want := range map[string]string{
		"1234": "1234", "-7": "-7", "+7": "7", "0": "0", "12345678901234567890123": "12345678901234567890123",
		"1.10": "1.10", "1e3": "1e3", "-1.5E-3": "-1.5E-3", ".5": "0.5", "5.": "5", "+.5e1": "0.5e1", "0.1234567890123456789": "0.1234567890123456789",
		"0x1F": "31", "0o17": "15", "0x10000000000000000": "",
		"01234": "", "-01": "", "0644": "", "00": "", "089": "",
		"1_000": "", "0b11": "", "1_000.5": "", ".inf": "", "-.Inf": "", ".nan": "",
		"yes": `"yes"`, "no": `"no"`, "on": `"on"`, "Off": `"Off"`, "y": `"y"`,
		"true": "true", "False": "false", "null": "null", "~": "null", "": "null",
		"12:30:45": `"12:30:45"`, "1:30": `"1:30"`, "2027-01-31": `"2027-01-31"`, "2027-01-31T09:00:00Z": `"2027-01-31T09:00:00Z"`,
		`"01234"`: `"01234"`, "'1_000'": `"1_000"`, "1.2.3": `"1.2.3"`, "1234 Main St": `"1234 Main St"`, "089a": `"089a"`, "-": `"-"`, "1e3 x": `"1e3 x"`,
	} {
		d := &declarations{namespace: "default", seen: map[string]string{}}
		d.readDocuments("a.yaml", []byte("name: a\nschedule: \"@every 1h\"\ntarget: stream:x\npayload: {zip: "+in+"}\n"))
		got := ""
		if len(d.list) == 1 {
			got = strings.TrimSuffix(strings.TrimPrefix(string(d.list[0].Spec.Payload), `{"zip":`), "}")
		}
		if got != want || want == "" && (d.wrong == 0 || d.problems[0].Cure == "" || !strings.HasPrefix(d.problems[0].Field, "a.yaml:4: ")) {
			t.Errorf("%s is read as %s, want %s; %v", in, got, want, d.problems)
		}
	}
}
