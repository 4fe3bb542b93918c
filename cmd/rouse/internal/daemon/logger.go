package daemon

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// BaseURL returns the URL of a listener, which has TLS if there is a certificate.
func BaseURL(address, cert string) string {
	if cert != "" {
		return "https://" + address
	}
	return "http://" + address
}

// WriteWhole writes a file so that a reader never sees a part of it.
func WriteWhole(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// NewLogger returns a logger of a level and in a format, which are valid.
func NewLogger(a *cli.App, minimum, format string) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(minimum))
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(a.ErrOut, o)
	if format == "json" {
		h = slog.NewJSONHandler(a.ErrOut, o)
	}
	log := slog.New(h)
	logRedis(log)
	return log
}
