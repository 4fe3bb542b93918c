package main

import (
	"slices"
	"strings"
	"testing"
)

func TestArgumentsAsOtherProgramsHaveThem(t *testing.T) {
	for given, want := range map[string]string{
		"--version": "version", "--json --version": "--json version", "help": "--help", "help dead list": "dead list --help",
		"get help": "get help", "create a --version": "create a --version", "-- --version": "-- --version",
	} {
		if got := normalizeArguments(strings.Fields(given)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s is %q", given, got)
		}
	}
}
