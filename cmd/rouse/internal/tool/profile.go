package tool

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
)

// ProfileCmd groups the commands for profiles.
type ProfileCmd struct {
	List   profileListCmd   `cmd:"" default:"withargs" help:"List profiles."`
	Set    profileSetCmd    `cmd:"" help:"Create a profile, or change flags of one."`
	Use    profileUseCmd    `cmd:"" help:"Use a profile in commands that name no server."`
	Delete profileDeleteCmd `cmd:"" aliases:"rm" help:"Delete a profile."`
}

func (ProfileCmd) Help() string {
	return `A profile is a name for a server, with the certificates, the file of the key and the namespace that go with it. --profile or ROUSE_PROFILE
chooses one; flags of the command line win over it. The default one is used where neither a profile nor a server is named.

Examples:

    rouse profile set prod --server https://rouse.example.com:7411 --key-file prod.key -n billing
    rouse profile use prod
    rouse profile`
}

// profileListCmd lists profiles.
type profileListCmd struct{}

func (profileListCmd) Help() string {
	return `Examples:

    rouse profile list
    rouse profile list --json`
}

// profileLine is a profile as JSON.
type profileLine struct {
	Name       string `json:"name"`
	Default    bool   `json:"default"`
	Server     string `json:"server"`
	CA         string `json:"ca,omitempty"`
	ClientCert string `json:"client_cert,omitempty"`
	ClientKey  string `json:"client_key,omitempty"`
	KeyFile    string `json:"key_file,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// Run lists them.
func (c *profileListCmd) Run(a *cli.App) error {
	all, err := cli.ReadProfiles()
	if err != nil {
		return err
	}
	t := cli.NewTable(a, "NAME", "DEFAULT", "SERVER", "NAMESPACE", "KEY-FILE")
	for _, name := range slices.Sorted(maps.Keys(all.Named)) {
		p, chosen := all.Named[name], "-"
		if name == all.Default {
			chosen = "default"
		}
		err := a.ShowValue(profileLine{name, name == all.Default, p.Server, p.CA, p.ClientCert, p.ClientKey, p.KeyFile, p.Namespace},
			func() error {
				return t.AddTableRow(name, chosen, p.Server, cli.OrDash(p.Namespace), cli.OrDash(p.KeyFile))
			})
		if err != nil {
			return err
		}
	}
	if len(all.Named) == 0 && !a.Flags.JSON {
		a.PrintNote("no profiles")
	}
	return t.FlushTable()
}

// profileName is the name of a profile on the command line.
type profileName struct {
	Name string `arg:"" help:"Name of the profile."`
}

// profileSetCmd creates or changes a profile.
type profileSetCmd struct{ profileName }

func (profileSetCmd) Help() string {
	return `The profile gets the flags that are given: --server, --ca, --client-cert, --client-key, --key-file and --namespace. It keeps its others; an
empty one is removed.

Examples:

    rouse profile set prod --server https://rouse.example.com:7411 --key-file prod.key
    rouse profile set prod -n billing`
}

// Run writes it.
func (c *profileSetCmd) Run(a *cli.App) error {
	if err := rouse.CheckText("name", c.Name, 128); err != nil || c.Name == "" {
		return errors.Join(err, rouse.Refuse("name", c.Name, "is empty", "name the profile"))
	}
	return changeProfiles(func(all *cli.Profiles) error {
		p := all.Named[c.Name]
		for _, f := range a.FlagsOf(&p) {
			if !a.Given[f.Name] {
				continue
			}
			if *f.Value = *f.Flag; f.File && *f.Value != "" {
				path, err := filepath.Abs(*f.Value)
				if err != nil {
					return err
				}
				*f.Value = path
			}
		}
		if p.Server == "" {
			return rouse.Refuse("server", "", "is missing", "give --server, the address of the profile's server")
		}
		server, err := client.Dial(p.Server, client.Options{CA: p.CA, Cert: p.ClientCert, Key: p.ClientKey})
		if err != nil {
			return err
		}
		if err := server.Close(); err != nil {
			return err
		}
		if all.Named == nil {
			all.Named = map[string]cli.Profile{}
		}
		all.Named[c.Name] = p
		a.PrintLine("set profile %s: %s", c.Name, p.Server)
		return nil
	})
}

// profileUseCmd chooses the default profile.
type profileUseCmd struct {
	Name string `arg:"" optional:"" help:"Name of the profile."`
	None bool   `help:"Use none."`
}

func (profileUseCmd) Help() string {
	return `Examples:

    rouse profile use prod
    rouse profile use --none`
}

// Run chooses it.
func (c *profileUseCmd) Run(a *cli.App) error {
	if c.None == (c.Name != "") {
		return &cli.Usage{Text: "name the profile to use, or give --none", Help: "rouse profile use --help"}
	}
	return changeProfiles(func(all *cli.Profiles) error {
		if all.Default = c.Name; c.None {
			a.PrintLine("no profile is used unless a command names one")
			return nil
		}
		p, err := all.Profile(c.Name)
		if err == nil {
			a.PrintLine("using profile %s: %s", c.Name, p.Server)
		}
		return err
	})
}

// profileDeleteCmd deletes a profile.
type profileDeleteCmd struct{ profileName }

func (profileDeleteCmd) Help() string {
	return `Examples:

    rouse profile delete prod`
}

// Run deletes it.
func (c *profileDeleteCmd) Run(a *cli.App) error {
	return changeProfiles(func(all *cli.Profiles) error {
		if _, err := all.Profile(c.Name); err != nil {
			return err
		}
		if delete(all.Named, c.Name); all.Default == c.Name {
			all.Default = ""
		}
		a.PrintLine("deleted profile %s", c.Name)
		return nil
	})
}

// changeProfiles lets change change the profiles, and writes them unless it fails.
func changeProfiles(change func(*cli.Profiles) error) error {
	name, err := cli.ProfilesFile()
	if err != nil {
		return err
	}
	all, err := cli.ReadProfiles()
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	text, err := yaml.Marshal(all)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err == nil {
		err = daemon.WriteWhole(name, string(text))
	}
	return err
}
