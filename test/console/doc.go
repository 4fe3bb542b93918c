// Package console has the tests of the web console in a real browser: its views and what they complain about,
// in light and dark, on wide and narrow screens; its verbs by keyboard; what a user without rights sees.
package console
