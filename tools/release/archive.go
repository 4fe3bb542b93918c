package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// file is one of an archive or a package.
type file struct {
	path   string
	mode   int64
	group  string // "" is root
	config bool   // a package keeps the changes of its user
	body   []byte
}

// enclosed are the files of the repository that every archive has.
var enclosed = []string{"LICENSE", "README.md", "CHANGELOG.md"}

// writePlatformArchive writes the archive of a platform: a zip for Windows, a tar for the others.
func (r *release) writePlatformArchive(p platform, binary string) error {
	body, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := []file{{path: filepath.Base(binary), mode: 0o755, body: body}}
	for _, name := range enclosed {
		if body, err = os.ReadFile(filepath.Join(r.root, name)); err != nil {
			return err
		}
		files = append(files, file{path: name, mode: 0o644, body: body})
	}
	for i := range files {
		files[i].path = path.Join(r.archiveName(p), files[i].path)
	}
	if p.os == "windows" {
		body, err = compressZip(files, r.time)
	} else {
		body, err = compressTar(files, r.time)
	}
	if err != nil {
		return err
	}
	extension := ".tar.gz"
	if p.os == "windows" {
		extension = ".zip"
	}
	return os.WriteFile(filepath.Join(r.out, r.archiveName(p)+extension), body, 0o644)
}

// compressTar returns files as a compressed tar that depends on nothing but them and the time.
func compressTar(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.body)), ModTime: at, Uname: "root", Gname: "root",
			Format: tar.FormatUSTAR}
		if f.path[len(f.path)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func compressZip(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(f.mode))
		one, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(one, bytes.NewReader(f.body)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
