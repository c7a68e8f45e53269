package views

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/icyloom/icyloom/projections"
)

// shell is what surrounds every view. All of its state is in the URL.
type shell struct {
	view    string // the view's title
	path    string // the view's path
	window  projections.Window
	theme   string // light, dark, or "" for what the system says
	paused  bool
	version string
	asset   func(name string) string
}

// nav are the views that exist, in the order of their number keys.
var nav = []struct{ key, title, path string }{
	{"1", "Overview", "/"},
}

// shell reads a page's state from its URL. An error's text is meant for the
// person who typed it.
func (c *Console) shell(r *http.Request, view string) (shell, error) {
	win, err := window(r)
	if err != nil {
		return shell{}, err
	}
	s := shell{view: view, path: "/", window: win, version: c.opt.Version, asset: c.assets.url}
	q := r.URL.Query()
	switch t := q.Get("theme"); t {
	case "", "light", "dark":
		s.theme = t
	default:
		return shell{}, fmt.Errorf("unknown theme %.40q: use light or dark, or leave it out", t)
	}
	s.paused = q.Get("paused") == "1"
	return s, nil
}

// href is the URL of a view with this state.
func (s shell) href() string {
	q := url.Values{"window": {string(s.window)}}
	if s.theme != "" {
		q.Set("theme", s.theme)
	}
	if s.paused {
		q.Set("paused", "1")
	}
	return s.path + "?" + q.Encode()
}

func (s shell) at(path string) shell            { s.path = path; return s }
func (s shell) over(w projections.Window) shell { s.window = w; return s }
func (s shell) themed(theme string) shell       { s.theme = theme; return s }
func (s shell) pausing(paused bool) shell       { s.paused = paused; return s }

// api is where the page's numbers are, stream where its news come from, and
// download the name under which Export saves the numbers.
func (s shell) api() string      { return "/api/dashboard?window=" + string(s.window) }
func (s shell) stream() string   { return "/events?window=" + string(s.window) }
func (s shell) download() string { return "icyloom-dashboard-" + string(s.window) + ".json" }

// trigger says when the stream begins: with the page, or not before Resume.
func (s shell) trigger() string {
	if s.paused {
		return "icyloom:resume"
	}
	return "load"
}

// themes are the choices of the theme switch.
var themes = []struct{ value, title string }{{"", "auto"}, {"light", "light"}, {"dark", "dark"}}

// current is the value of aria-current.
func current(yes bool) string {
	if yes {
		return "true"
	}
	return "false"
}

// htmxConfig keeps opened details open when a page changes under them.
const htmxConfig = `{"morphIgnore":["data-htmx-powered","open"],"includeIndicatorCSS":false,"history":false}`
