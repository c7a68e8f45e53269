package views

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/icyloom/icyloom/views/internal/sketch"
)

//go:embed assets/*.js assets/*.css assets/*.woff2 assets/*.LICENSE
var embedded embed.FS

// assets are the files that pages load, all under one hash: a style sheet names
// its fonts and frames by bare file name, and a new build changes every URL.
type assets struct {
	hash  string
	files map[string]asset
}

type asset struct {
	body []byte
	kind string
}

// kinds are the only file types that are served.
var kinds = map[string]string{
	".js":      "text/javascript; charset=utf-8",
	".css":     "text/css; charset=utf-8",
	".woff2":   "font/woff2",
	".svg":     "image/svg+xml",
	".LICENSE": "text/plain; charset=utf-8",
}

func loadAssets() (*assets, error) {
	a := &assets{files: map[string]asset{}}
	entries, err := embedded.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("read the embedded assets: %w", err)
	}
	for _, e := range entries {
		body, err := embedded.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the embedded assets: %w", err)
		}
		a.files[e.Name()] = asset{body: body, kind: kinds[path.Ext(e.Name())]}
	}
	for name, body := range sketch.Frames() {
		a.files[name] = asset{body: body, kind: kinds[".svg"]}
	}
	a.files["mark.svg"] = asset{body: sketch.Mark(), kind: kinds[".svg"]}
	names := make([]string, 0, len(a.files))
	for name := range a.files {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s %d\n", name, len(a.files[name].body))
		sum.Write(a.files[name].body)
	}
	a.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	return a, nil
}

// url is where a page finds the named asset.
func (a *assets) url(name string) string { return "/assets/" + a.hash + "/" + name }

// serve sends an asset. Its URL changes with its bytes, so a browser keeps it.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[r.PathValue("name")]
	if !ok || r.PathValue("hash") != a.hash {
		http.Error(w, "No such asset: reload the page that asked for it.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
