// Package conformance executes the conformance script of the clients (clients/conformance) in each language,
// against the real server and with faults in between, and runs the tests of the clients in other languages.
package conformance
