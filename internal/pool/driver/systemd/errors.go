package systemd

import (
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/godbus/dbus/v5"
)

// explainBusError adds the cure to errors that an administrator can fix.
func explainBusError(err error, address string) error {
	e, ok := errors.AsType[dbus.Error](err)
	if !ok {
		return err
	}
	switch e.Name {
	case "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
		return fmt.Errorf(
			"systemd at %s does not let user %s do that: allow it the action %s.manage-units by a rule of polkit, or use the systemd of the user: %w",
			address, processUser(), service, err)
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner":
		return fmt.Errorf("there is no systemd on the D-Bus at %s: %w", address, err)
	}
	return fmt.Errorf("systemd: %w", err)
}

// isNotLoaded reports whether an error means that the unit is not loaded.
func isNotLoaded(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && (e.Name == service+".NoSuchUnit" || e.Name == "org.freedesktop.DBus.Error.UnknownObject")
}

// isRefusal reports whether an error is systemd's answer: the call had no effect.
func isRefusal(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name != "org.freedesktop.DBus.Error.NoReply" && e.Name != "org.freedesktop.DBus.Error.Timeout"
}

// processUser returns the user of this process.
func processUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint(os.Geteuid())
}
