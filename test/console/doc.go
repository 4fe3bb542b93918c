// Package console has the tests of the web console in a real browser: its views and their error messages, in
// light and dark, on wide and narrow screens; its verbs by keyboard; its views for a user without rights.
package console
