package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/bench"
	"github.com/rousehq/rouse/cmd/rouse/internal/admin"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/cmd/rouse/internal/move"
	"github.com/rousehq/rouse/cmd/rouse/internal/pool"
	"github.com/rousehq/rouse/cmd/rouse/internal/serve"
	"github.com/rousehq/rouse/cmd/rouse/internal/timer"
	"github.com/rousehq/rouse/cmd/rouse/internal/tool"
	"github.com/rousehq/rouse/internal/listen"
)

// commands is the command line: global flags and the commands.
type commands struct {
	Global any `embed:""` // a *globalFlags

	Serve     serve.ServeCmd     `cmd:"" group:"server" help:"Run a server."`
	Dev       serve.DevCmd       `cmd:"" group:"server" help:"Run a development server, whose clock can be moved."`
	Cert      serve.CertCmd      `cmd:"" group:"server" help:"Make certificates for trials."`
	Pool      pool.Cmd           `cmd:"" group:"server" help:"Manage pools of keyed workers, started by requests."`
	Nodes     admin.NodesCmd     `cmd:"" group:"server" help:"List the nodes that serve the store."`
	Buckets   admin.BucketsCmd   `cmd:"" group:"server" help:"List the buckets of the timers, and the nodes that have them."`
	Targets   admin.TargetsCmd   `cmd:"" group:"server" help:"Show what is sent, and waits to be sent, to each target."`
	Pools     pool.PoolsCmd      `cmd:"" group:"server" help:"List the pools of workers of the nodes, and the groups of one."`
	Stats     admin.StatsCmd     `cmd:"" group:"server" help:"Show what happened lately: fires, failures, lags."`
	Doctor    admin.DoctorCmd    `cmd:"" group:"server" help:"Check the nodes, their settings and the store, and tell the cure."`
	Reminders admin.RemindersCmd `cmd:"" group:"server" help:"Show the token buckets of the reminder service, with their sidecars and instances."`

	Key        admin.KeyCmd       `cmd:"" group:"server" help:"List, create, rotate or revoke API keys."`
	Session    admin.SessionCmd   `cmd:"" group:"server" help:"List or end sessions of people who signed in to the console."`
	Role       admin.RoleCmd      `cmd:"" group:"server" help:"List, write or delete roles of access control."`
	Namespaces admin.NamespaceCmd `cmd:"" name:"namespace" group:"server" help:"List, create or delete namespaces, and set their quotas."`
	Whoami     admin.WhoamiCmd    `cmd:"" group:"server" help:"Show what your credentials are and what they allow."`
	Audit      admin.AuditCmd     `cmd:"" group:"server" help:"Show who changed what."`
	Clock      admin.ClockCmd     `cmd:"" group:"server" help:"Show the clock of a server, or move that of a development server."`
	Config     serve.ConfigCmd    `cmd:"" group:"server" help:"Print the configuration of serve, with the source of each setting."`
	Schema     admin.SchemaCmd    `cmd:"" group:"server" help:"Show or migrate the schema of a PostgreSQL, or give roles their rights."`

	Controller    serve.ControllerCmd    `cmd:"" group:"server" help:"Keep timers as objects of Kubernetes declare them."`
	Scaler        serve.ScalerCmd        `cmd:"" group:"server" help:"Tell KEDA how many timers are due, so that it scales workers ahead of time."`
	DaprScheduler serve.DaprSchedulerCmd `cmd:"" group:"server" help:"Run in place of Dapr's scheduler, with its flags."`

	Create timer.CreateCmd `cmd:"" group:"timers" help:"Create a timer, or many from a file."`
	Get    timer.GetCmd    `cmd:"" group:"timers" help:"Show a timer."`
	List   timer.ListCmd   `cmd:"" group:"timers" aliases:"ls" help:"List timers."`
	Delete timer.DeleteCmd `cmd:"" group:"timers" aliases:"rm" help:"Delete a timer, or all that match."`
	Pause  timer.PauseCmd  `cmd:"" group:"timers" help:"Pause a timer, or all that match: it does not fire until it is resumed."`
	Resume timer.ResumeCmd `cmd:"" group:"timers" help:"Resume a paused timer, or all that match."`
	Run    timer.RunCmd    `cmd:"" group:"timers" help:"Fire a timer now, in addition to its schedule."`
	Badge  timer.BadgeCmd  `cmd:"" group:"timers" help:"Print where the badge of a timer is shown, without credentials."`
	Report timer.ReportCmd `cmd:"" group:"timers" help:"Report that the work of a check has succeeded or failed, or run it."`

	Apply move.ApplyCmd `cmd:"" group:"timers" help:"Make timers and calendars as files declare them."`

	timer.EditCommands `embed:""`

	Calendar timer.CalendarCmd `cmd:"" group:"timers" help:"Show, write or delete calendars, which schedules exclude or are limited to."`
	Jobs     timer.JobsCmd     `cmd:"" group:"timers" help:"Show or cancel changes of many timers, which go on by themselves."`
	Limit    admin.LimitCmd    `cmd:"" group:"timers" help:"Show, set, pause or delete limits, which timers name."`
	Secret   admin.SecretCmd   `cmd:"" group:"timers" help:"Show, write or delete secrets, which headers of timers refer to."`
	Signing  admin.SigningCmd  `cmd:"" group:"timers" help:"Show or rotate the keys that sign callbacks."`

	Call   pool.CallCmd   `cmd:"" group:"timers" help:"Send a request to the workers of a key of a pool, and print the answer."`
	Answer pool.AnswerCmd `cmd:"" group:"timers" help:"Print the answer to a request that was sent before."`
	Work   pool.WorkCmd   `cmd:"" group:"timers" help:"Run as a worker of a pool: run a command for each request."`

	Next timer.NextCmd `cmd:"" group:"times" help:"Print the next times of a schedule; needs no server."`

	timer.PlanCommands `embed:""`

	Fires timer.FiresCmd `cmd:"" group:"times" help:"Show the records of ended occurrences."`
	Dead  timer.DeadCmd  `cmd:"" group:"times" help:"Show, redrive or purge dead letters."`

	Export move.ExportCmd `cmd:"" group:"data" help:"Write timers and calendars to a file, with their state."`
	Import move.ImportCmd `cmd:"" group:"data" help:"Import timers from a file of export."`

	ImportReminders move.ImportRemindersCmd `cmd:"" group:"data" help:"Import the reminders that Dapr before 1.15 kept in its state store."`

	Backup  move.BackupCmd  `cmd:"" group:"data" help:"Copy the store of a server into an archive, or check one."`
	Restore move.RestoreCmd `cmd:"" group:"data" help:"Restore a store from an archive that backup wrote."`

	DaprImport   move.DaprImportCmd   `cmd:"" group:"data" help:"Import the jobs of Dapr's scheduler."`
	MigrateStore move.MigrateStoreCmd `cmd:"" group:"data" help:"Copy a store into another one of any kind, while a server uses it."`

	Listen     tool.ListenCmd  `cmd:"" group:"tools" help:"Receive callbacks on this machine, print them and verify their signatures."`
	MCP        mcpCmd          `cmd:"" name:"mcp" group:"tools" help:"Serve a model over the Model Context Protocol, on stdin and stdout."`
	Bench      tool.BenchCmd   `cmd:"" group:"tools" help:"Measure how fast this machine runs rouse."`
	Check      tool.CheckCmd   `cmd:"" group:"tools" help:"Check a recorded history for lost, early, late and duplicate fires."`
	Profile    tool.ProfileCmd `cmd:"" group:"tools" help:"List, set, choose or delete profiles: names of servers, with what goes with them."`
	Docs       tool.DocsCmd    `cmd:"" group:"tools" help:"Serve this documentation, with a search, or print a page of it."`
	Version    tool.VersionCmd `cmd:"" group:"tools" help:"Print the version."`
	Completion completionCmd   `cmd:"" group:"tools" help:"Print a completion script for a shell."`

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
func newParser(a *cli.App) (*kong.Kong, error) {
	scenarios, _ := bench.Scenarios()
	return kong.New(&commands{Global: &a.Flags}, kong.Vars{"scenarios": strings.Join(scenarios, ", ")}, kong.Name("rouse"),
		kong.Description(about), kong.Writers(a.Out, a.ErrOut),
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
		help = strings.TrimSuffix(help, ".") + " ($" + config.EnvName(v.Name) + ")."
	}
	return help
}
