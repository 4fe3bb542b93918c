// Package console is the web console of rouse: files that a browser loads once, and which then speak the HTTP
// API. Its sources are in src; "make console" builds dist from them, which is committed.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// policy permits the console's pages to load scripts, styles and data from their own origin, and nothing
// else. No script can put text into the page as HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; " +
	"form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is a file in both forms that browsers take.
type file struct {
	plain, zipped []byte
	kind, tag     string
}

// files are those of dist by their paths. They are read when the first page is asked for.
var files = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is valid
		_, _ = w.Write(plain)
		_ = w.Close()
		sum := sha256.Sum256(plain)
		all[strings.TrimPrefix(name, "dist")] = &file{plain, zipped.Bytes(), mime.TypeByExtension(path.Ext(name)),
			fmt.Sprintf("%q", base64.RawURLEncoding.EncodeToString(sum[:12]))}
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return all
})

// Serve answers a request for a file of the console, or for one of its pages, which are all the same file. It
// reports false for everything else, which it leaves to the API: other methods, paths of the API, and
// programs that ask for a path that does not exist, which get an error.
func Serve(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	name := r.URL.Path
	if name == "/v1" || strings.HasPrefix(name, "/v1/") || name == "/openapi.yaml" {
		return false
	}
	f, kept := files()[name], "public, max-age=31536000, immutable"
	if f == nil || name == "/index.html" {
		if name != "/" && !strings.Contains(r.Header.Get("Accept"), "text/html") {
			return false
		}
		f, kept = files()["/index.html"], "no-cache"
	}
	if f == nil {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", kept)
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding, Accept")
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error is of a client that is gone
	}
	return true
}
