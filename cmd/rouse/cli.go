package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/bench"
	"github.com/rousehq/rouse/internal/listen"
)

// commands is the command line: global flags and the commands.
type commands struct {
	Global any `embed:""` // a *globalFlags

	Serve     serveCmd     `cmd:"" group:"server" help:"Run a server."`
	Dev       devCmd       `cmd:"" group:"server" help:"Run a development server, whose clock can be moved."`
	Cert      certCmd      `cmd:"" group:"server" help:"Make certificates for trials."`
	Pool      poolCmd      `cmd:"" group:"server" help:"Manage pools of keyed workers, started by requests."`
	Nodes     nodesCmd     `cmd:"" group:"server" help:"List the nodes that serve the store."`
	Buckets   bucketsCmd   `cmd:"" group:"server" help:"List the buckets of the timers, and the nodes that have them."`
	Targets   targetsCmd   `cmd:"" group:"server" help:"Show what is sent, and waits to be sent, to each target."`
	Pools     poolsCmd     `cmd:"" group:"server" help:"List the pools of workers of the nodes, and the groups of one."`
	Stats     statsCmd     `cmd:"" group:"server" help:"Show what happened lately: fires, failures, lags."`
	Doctor    doctorCmd    `cmd:"" group:"server" help:"Check the nodes, their settings and the store, and tell the cure."`
	Reminders remindersCmd `cmd:"" group:"server" help:"Show the token buckets of the reminder service, with their sidecars and instances."`

	Key        keyCmd       `cmd:"" group:"server" help:"List, create, rotate or revoke API keys."`
	Session    sessionCmd   `cmd:"" group:"server" help:"List or end sessions of people who signed in to the console."`
	Role       roleCmd      `cmd:"" group:"server" help:"List, write or delete roles of access control."`
	Namespaces namespaceCmd `cmd:"" name:"namespace" group:"server" help:"List, create or delete namespaces, and set their quotas."`
	Whoami     whoamiCmd    `cmd:"" group:"server" help:"Show what your credentials are and what they allow."`
	Audit      auditCmd     `cmd:"" group:"server" help:"Show who changed what."`
	Clock      clockCmd     `cmd:"" group:"server" help:"Show the clock of a server, or move that of a development server."`
	Config     configCmd    `cmd:"" group:"server" help:"Print the configuration of serve, with the source of each setting."`
	Schema     schemaCmd    `cmd:"" group:"server" help:"Show or migrate the schema of a PostgreSQL, or give roles their rights."`

	Controller    controllerCmd    `cmd:"" group:"server" help:"Keep timers as objects of Kubernetes declare them."`
	DaprScheduler daprSchedulerCmd `cmd:"" group:"server" help:"Run in place of Dapr's scheduler, with its flags."`

	Create createCmd `cmd:"" group:"timers" help:"Create a timer, or many from a file."`
	Get    getCmd    `cmd:"" group:"timers" help:"Show a timer."`
	List   listCmd   `cmd:"" group:"timers" aliases:"ls" help:"List timers."`
	Delete deleteCmd `cmd:"" group:"timers" aliases:"rm" help:"Delete a timer, or all that match."`
	Pause  pauseCmd  `cmd:"" group:"timers" help:"Pause a timer, or all that match: it does not fire until it is resumed."`
	Resume resumeCmd `cmd:"" group:"timers" help:"Resume a paused timer, or all that match."`
	Run    runCmd    `cmd:"" group:"timers" help:"Fire a timer now, in addition to its schedule."`

	Apply applyCmd `cmd:"" group:"timers" help:"Make timers and calendars as files declare them."`

	editCommands `embed:""`

	Calendar calendarCmd `cmd:"" group:"timers" help:"Show, write or delete calendars, which schedules exclude or are limited to."`
	Jobs     jobsCmd     `cmd:"" group:"timers" help:"Show or cancel changes of many timers, which go on by themselves."`
	Secret   secretCmd   `cmd:"" group:"timers" help:"Show, write or delete secrets, which headers of timers refer to."`
	Signing  signingCmd  `cmd:"" group:"timers" help:"Show or rotate the keys that sign callbacks."`

	Call   callCmd   `cmd:"" group:"timers" help:"Send a request to the workers of a key of a pool, and print the answer."`
	Answer answerCmd `cmd:"" group:"timers" help:"Print the answer to a request that was sent before."`
	Work   workCmd   `cmd:"" group:"timers" help:"Run as a worker of a pool: run a command for each request."`

	Next nextCmd `cmd:"" group:"times" help:"Print the next times of a schedule; needs no server."`

	planCommands `embed:""`

	Fires firesCmd `cmd:"" group:"times" help:"Show the records of ended occurrences."`
	Dead  deadCmd  `cmd:"" group:"times" help:"Show, redrive or purge dead letters."`

	Export exportCmd `cmd:"" group:"data" help:"Write timers and calendars to a file, with their state."`
	Import importCmd `cmd:"" group:"data" help:"Import timers from a file of export."`

	ImportReminders importRemindersCmd `cmd:"" group:"data" help:"Import the reminders that Dapr before 1.15 kept in its state store."`

	Backup  backupCmd  `cmd:"" group:"data" help:"Copy the store of a server into an archive, or check one."`
	Restore restoreCmd `cmd:"" group:"data" help:"Restore a store from an archive that backup wrote."`

	DaprImport   daprImportCmd   `cmd:"" group:"data" help:"Import the jobs of Dapr's scheduler."`
	MigrateStore migrateStoreCmd `cmd:"" group:"data" help:"Copy a store into another one of any kind, while a server uses it."`

	Listen     listenCmd     `cmd:"" group:"tools" help:"Receive callbacks on this machine, print them and verify their signatures."`
	MCP        mcpCmd        `cmd:"" name:"mcp" group:"tools" help:"Serve a model over the Model Context Protocol, on stdin and stdout."`
	Bench      benchCmd      `cmd:"" group:"tools" help:"Measure how fast this machine runs rouse."`
	Check      checkCmd      `cmd:"" group:"tools" help:"Check a recorded history for lost, early, late and duplicate fires."`
	Docs       docsCmd       `cmd:"" group:"tools" help:"Serve this documentation, with a search, or print a page of it."`
	Version    versionCmd    `cmd:"" group:"tools" help:"Print the version."`
	Completion completionCmd `cmd:"" group:"tools" help:"Print a completion script for a shell."`

	CompleteWords completeWordsCmd `cmd:"" hidden:"" help:"Print completions of a command line, for completion scripts."`
}

const about = `Durable timers that wake your code. Say when, what and where; rouse fires on time, at least once, and never early.`

// groups are the headings of the help.
var groups = []kong.Group{
	{Key: "server", Title: "Server:"},
	{Key: "timers", Title: "Timers:"},
	{Key: "times", Title: "Times and what became of them:"},
	{Key: "data", Title: "Copies:"},
	{Key: "tools", Title: "Tools:"},
	{Key: "settings", Title: "Settings (also in the environment and in a file):"},
}

// newParser returns the parser of the command line for an app.
func newParser(a *app) (*kong.Kong, error) {
	scenarios, _ := bench.Scenarios()
	return kong.New(&commands{Global: &a.flags}, kong.Vars{"scenarios": strings.Join(scenarios, ", ")}, kong.Name("rouse"),
		kong.Description(about), kong.Writers(a.out, a.errOut),
		kong.ExplicitGroups(groups), kong.ValueFormatter(helpOf),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
		kong.TypeMapper(reflect.TypeFor[listen.Insecure](), insecureMapper{}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: 120}))
}

// readDuration parses the value of a flag in the same way as the API.
func readDuration(k *kong.DecodeContext, to reflect.Value) error {
	var text string
	if err := k.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := rouse.ParseDuration(text)
	to.SetInt(int64(d))
	return rouse.Under(k.Value.Name, err)
}

// insecureMapper reads a flag that may have a value, --insecure=api, and is true without one.
type insecureMapper struct{}

// IsBool implements kong.BoolMapper.
func (insecureMapper) IsBool() bool { return true }

// Decode implements kong.Mapper.
func (insecureMapper) Decode(k *kong.DecodeContext, to reflect.Value) error {
	text := "true"
	if k.Scan.Peek().Type == kong.FlagValueToken {
		text = fmt.Sprint(k.Scan.Pop().Value)
	}
	i := to.Addr().Interface().(*listen.Insecure)
	if err := i.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%w: give %s", err, i.Kind())
	}
	return nil
}

// helpOf returns the help of a flag with its default; for a setting of the server it also names the
// variable.
func helpOf(v *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(v)
	if v.HasDefault && v.Default != "" && v.Default != "0" && v.Default != "false" {
		help = strings.TrimSuffix(help, ".") + "; default " + v.Default + "."
	}
	if v.Flag != nil && v.Flag.Group != nil && v.Flag.Group.Key == "settings" && v.Name != "config" {
		help = strings.TrimSuffix(help, ".") + " ($" + envName(v.Name) + ")."
	}
	return help
}
