package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
)

// Profile has the flags by which a server is reached. It has names of files, and no key itself.
type Profile struct {
	Server     string `yaml:"server"`
	CA         string `yaml:"ca,omitempty"`
	ClientCert string `yaml:"client-cert,omitempty"`
	ClientKey  string `yaml:"client-key,omitempty"`
	KeyFile    string `yaml:"key-file,omitempty"`
	Namespace  string `yaml:"namespace,omitempty"`
}

// Profiles is a user's file of profiles.
type Profiles struct {
	Default string             `yaml:"default,omitempty"` // the profile of commands that name neither one nor a server
	Named   map[string]Profile `yaml:"profiles"`
}

// maxProfiles bounds the file of profiles.
const maxProfiles = 1 << 20

// ProfilesFile returns the name of the file of profiles.
func ProfilesFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "rouse", "profiles.yaml"), err
}

// ReadProfiles reads the file of profiles. Without it, or for a user without a home, there are none.
func ReadProfiles() (p Profiles, err error) {
	name, err := ProfilesFile()
	if err != nil {
		return p, nil
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	text, err := ReadUpTo(nil, "profiles", name, maxProfiles)
	if err != nil {
		return p, err
	}
	if err := yaml.UnmarshalWithOptions(text, &p, yaml.DisallowUnknownField()); err != nil {
		return p, rouse.Refuse("profiles", name, "cannot be read: "+yaml.FormatError(err, false, false),
			"repair it, or remove it and write the profiles again with rouse profile set")
	}
	return p, nil
}

// Profile returns the profile of a name.
func (p *Profiles) Profile(name string) (Profile, error) {
	found, ok := p.Named[name]
	switch {
	case ok:
		return found, nil
	case len(p.Named) == 0:
		return found, rouse.Refuse("profile", name, "does not exist", "make it with rouse profile set")
	}
	return found, rouse.Refuse("profile", name, "does not exist", SuggestName(name, slices.Sorted(maps.Keys(p.Named))))
}

// ProfileFlag is a global flag whose value a profile may have.
type ProfileFlag struct {
	Name, Variable string
	Flag, Value    *string // in the flags, and in the profile
	File           bool
}

// FlagsOf returns the flags that a profile has.
func (a *App) FlagsOf(p *Profile) []ProfileFlag {
	f := &a.Flags
	return []ProfileFlag{
		{"server", "ROUSE_SERVER", &f.Server, &p.Server, false},
		{"ca", "ROUSE_CA", &f.CA, &p.CA, true},
		{"client-cert", "ROUSE_CLIENT_CERT", &f.ClientCert, &p.ClientCert, true},
		{"client-key", "ROUSE_CLIENT_KEY", &f.ClientKey, &p.ClientKey, true},
		{"key-file", "ROUSE_KEY_FILE", &f.KeyFile, &p.KeyFile, true},
		{"namespace", "ROUSE_NAMESPACE", &f.Namespace, &p.Namespace, false},
	}
}

// ApplyProfile gives the global flags the values of the profile that the command names; they win over
// variables, and flags of the command line over them. Without a name, the default profile is used unless
// flag or variable names a server, whose CA or key would be another one's then; there, variables win, too.
func (a *App) ApplyProfile() error {
	name := a.Flags.Profile
	if name == "" && (a.Given["profile"] || a.Flags.Server != "") {
		return nil
	}
	profiles, err := ReadProfiles()
	if name == "" {
		// most commands of those who have no profiles need no server, or are the ones that repair the file
		a.profileErr = err
		if name = profiles.Default; err != nil || name == "" {
			return nil
		}
	}
	if err != nil {
		return err
	}
	p, err := profiles.Profile(name)
	if err != nil && a.Flags.Profile == "" {
		a.profileErr = fmt.Errorf("the default: %w", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range a.FlagsOf(&p) {
		if *f.Value != "" && !a.Given[f.Name] && (a.Flags.Profile != "" || os.Getenv(f.Variable) == "") {
			*f.Flag = *f.Value
		}
	}
	return nil
}
