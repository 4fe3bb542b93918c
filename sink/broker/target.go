package broker

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// Target is a parsed target.
type Target struct {
	Scheme     string // amqp, nats or redis
	Connection string
	Path       string // the part behind the connection, as written
	Structured bool   // "?mode=structured": the event as JSON
	Core       bool   // "?via=core", of nats: without JetStream
}

// located is a target with its connection.
type located struct {
	Target
	connection *connection
}

// examples are the forms of targets by scheme.
var examples = map[string]string{
	"amqp":  "amqp:CONNECTION/EXCHANGE/ROUTING.KEY",
	"nats":  "nats:CONNECTION/SUBJECT",
	"redis": "redis:CONNECTION/STREAM",
}

// Schemes returns the schemes of the sink's targets.
func Schemes() []string { return slices.Sorted(maps.Keys(examples)) }

// Check refuses invalid targets, targets without a connection of this server, and options of webhooks.
func (s *Sink) Check(spec *rouse.Spec) error {
	t, err := s.resolveTarget(spec.Target)
	if err != nil {
		return err
	}
	if wrong, cure := t.connection.publisher.Check(&t.Target); wrong != "" {
		return rouse.Refuse("target", spec.Target, wrong, cure)
	}
	w := &spec.Webhook
	if w.Any() {
		return rouse.Refuse("webhook", "", "has no meaning for a target at a broker",
			"leave it out; for an event as JSON put ?mode=structured at the end of the target")
	}
	return nil
}

// resolveTarget parses a target and finds its connection. Its errors are *rouse.Invalid, and contain no
// password.
func (s *Sink) resolveTarget(text string) (located, error) {
	refuse := func(wrong, cure string) (located, error) {
		return located{}, rouse.Refuse("target", hidePassword(text), wrong, cure)
	}
	scheme, rest, ok := strings.Cut(text, ":")
	example := examples[scheme]
	switch {
	case !ok || example == "":
		return refuse("is no target at a broker", "give one such as "+examples["amqp"])
	case strings.HasPrefix(rest, "/"):
		return refuse("is the address of a broker, and targets name connections of the server instead",
			s.connectionCure(scheme))
	}
	rest, options, _ := strings.Cut(rest, "?")
	name, path, ok := strings.Cut(rest, "/")
	if !ok || path == "" {
		return refuse("names a connection and no place at its broker", "write "+example)
	}
	t := located{Target: Target{Scheme: scheme, Connection: name, Path: path}, connection: s.connections[name]}
	switch c := t.connection; {
	case c == nil:
		return refuse(fmt.Sprintf("names the connection %q, which this server does not have", rouse.Shorten(name, 64)),
			s.connectionCure(scheme))
	case c.kind != scheme:
		return refuse("names the connection "+name+", which is not one of that kind",
			"write "+strings.Replace(examples[c.kind], "CONNECTION", name, 1))
	case !c.allowsPath(path):
		return refuse("is not allowed for the connection "+name,
			"use one of the prefixes that its operator allows: "+strings.Join(c.Allow, ", "))
	}
	if wrong := t.readOptions(options); wrong != "" {
		return refuse(wrong,
			"use mode=structured, mode=binary and, with nats:, via=core and via=jetstream, with & between; write a question mark of a name as %3F")
	}
	return t, nil
}

// readOptions parses the options of a target and returns their fault.
func (t *Target) readOptions(options string) (wrong string) {
	if options == "" {
		return ""
	}
	for word := range strings.SplitSeq(options, "&") {
		switch {
		case word == "mode=structured":
			t.Structured = true
		case word == "mode=binary":
			t.Structured = false
		case word == "via=core" && t.Scheme == "nats":
			t.Core = true
		case word == "via=jetstream" && t.Scheme == "nats":
			t.Core = false
		default:
			return fmt.Sprintf("has the option %q, which does not exist", rouse.Shorten(word, 64))
		}
	}
	return ""
}

// connectionCure lists the valid beginnings of a target of a scheme.
func (s *Sink) connectionCure(scheme string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.connections)) {
		if s.connections[name].kind == scheme {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "write " + examples[scheme] +
			", with a connection that the operator describes in the file of the setting brokers: there is none of this kind"
	}
	return "write " + examples[scheme] + ", with one of the connections " + strings.Join(names, ", ")
}

// hidePassword removes a possible password.
func hidePassword(target string) string {
	if i := strings.LastIndexByte(target, '@'); i >= 0 {
		if scheme, rest, ok := strings.Cut(target, "//"); ok && strings.Contains(rest, "@") {
			return scheme + "//…" + target[i:]
		}
	}
	return target
}

// Name decodes a part of a target's path, and returns its fault.
func Name(part string) (name, wrong string) {
	name = part
	if strings.IndexByte(part, '%') >= 0 {
		var err error
		if name, err = url.PathUnescape(part); err != nil {
			return "", "has a percent sign that begins no code such as %2F"
		}
	}
	if !utf8.ValidString(name) {
		return "", "stands for what is not UTF-8"
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "", "stands for a control character"
	}
	return name, ""
}
