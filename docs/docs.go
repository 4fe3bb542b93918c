// Package docs is the documentation, as files in the program. Its tests run the commands and code of the
// pages.
package docs

import "embed"

// Files are the pages and their pictures.
//
//go:embed *.md console/*.png pictures/*.svg
var Files embed.FS
