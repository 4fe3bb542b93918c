package cli

import "time"

// globalFlags are the flags of every command. There is none for the key itself: other users of the machine
// see command lines.
type globalFlags struct {
	Profile        string        `help:"Profile that the flags have their values from, unless they are given: see rouse profile." placeholder:"NAME" env:"ROUSE_PROFILE"`
	Server         string        `help:"Address of the server, or of several of its nodes, separated by commas; default 127.0.0.1:7411." placeholder:"HOST:PORT" env:"ROUSE_SERVER"`
	CA             string        `name:"ca" help:"Authorities of the server's certificate, in PEM; default the system's." placeholder:"FILE" env:"ROUSE_CA"`
	ClientCert     string        `help:"Certificate of this client, in PEM." placeholder:"FILE" env:"ROUSE_CLIENT_CERT"`
	ClientKey      string        `help:"Key of that certificate." placeholder:"FILE" env:"ROUSE_CLIENT_KEY"`
	KeyFile        string        `help:"File with the API key to send; without it the key is that of ROUSE_KEY, if any." placeholder:"FILE" env:"ROUSE_KEY_FILE"`
	Namespace      string        `short:"n" help:"Namespace of the timers." default:"default" placeholder:"NAME" env:"ROUSE_NAMESPACE"`
	Timeout        time.Duration `help:"Timeout of a call to the server." default:"30s" placeholder:"DURATION"`
	IdempotencyKey string        `help:"Make a change once: the same command with the same key within a day changes nothing more, and has the same result." placeholder:"KEY"`
	JSON           bool          `name:"json" help:"Print JSON: one object, or one per line for lists and streams; errors as problem JSON on stderr."`
	Quiet          bool          `short:"q" help:"Print results and errors only: no notes, no progress."`
	NoColor        bool          `name:"no-color" help:"Print without colours, as with NO_COLOR in the environment."`
}
