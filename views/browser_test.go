package views

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/icyloom/icyloom/projections"
)

// browser is a real browser and what it complained about.
type browser struct {
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// startBrowser skips the test, and says so, where there is no browser.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil && path == "" {
			path = p
		}
	}
	if path == "" {
		t.Skip("SKIPPED: the console in a browser was not tried: no chromium was found; make deps installs it")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // root cannot have one
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancelAlloc)
	b := &browser{}
	b.ctx, _ = chromedp.NewContext(alloc, chromedp.WithListener(b.listen))
	t.Cleanup(func() {
		if err := chromedp.Cancel(b.ctx); err != nil {
			t.Logf("the browser did not close well: %v", err)
		}
	})
	b.do(t, chromedp.Navigate("about:blank"))
	return b
}

func (b *browser) listen(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *log.EventEntryAdded:
		b.bad = append(b.bad, "log: "+ev.Entry.Text+" "+ev.Entry.URL)
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, "exception: "+ev.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.bad = append(b.bad, fmt.Sprintf("console: %s, %d values", ev.Type, len(ev.Args)))
	}
}

// complaints returns what the browser said since the last call.
func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Join(b.bad, "\n")
	b.bad = nil
	return all
}

func (b *browser) do(t *testing.T, a ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, a...); err != nil {
		t.Fatalf("browser: %v\n%s", err, b.complaints())
	}
}

func run[T any](t *testing.T, b *browser, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		t.Fatalf("browser: %v\n%s", err, b.complaints())
	}
	return v
}

// until waits for a JavaScript expression to be true.
func (b *browser) until(t *testing.T, expression string) {
	t.Helper()
	if err := chromedp.Do(b.ctx, discard(chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(20*time.Second)))); err != nil {
		body, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("never true: %s: %v\n%s\n%.600s", expression, err, b.complaints(), body)
	}
}

func discard[T any](a chromedp.Action[T]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := a(ctx, t)
		return chromedp.Void{}, err
	}
}

const (
	isLive   = `document.getElementById("live").textContent === "LIVE"`
	callsNow = `document.querySelector("#kpi-calls data")?.value`
)

func calls(n int64) string { return fmt.Sprintf(`%s === "%d"`, callsNow, n) }

func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	t.Run("complains at all", b.complainsAtAll)
	t.Run("slow scripts", b.slowScripts)
	t.Run("live", b.live)
	t.Run("pause", b.pause)
	t.Run("reconnect", b.reconnect)
	t.Run("refused", b.refused)
	t.Run("keys", b.keys)
	t.Run("widths", b.widths)
	t.Run("themes", b.themes)
	t.Run("without script", b.withoutScript)
}

// complainsAtAll proves that a breach of the policy would be seen.
func (b *browser) complainsAtAll(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", csp)
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<link rel=icon href="data:,"><p style="color:red">x</p><script>1</script>`))
	}))
	defer srv.Close()
	b.do(t, chromedp.Navigate(srv.URL))
	if bad := b.complaints(); !strings.Contains(bad, "Content Security Policy") {
		t.Fatalf("inline style and script went unnoticed: %q", bad)
	}
}

func (b *browser) quiet(t *testing.T) {
	t.Helper()
	if bad := b.complaints(); bad != "" {
		t.Errorf("the browser complains:\n%s", bad)
	}
}

// visit opens a page of a new console.
func (b *browser) visit(t *testing.T, s *source, url string, edit ...func(*Options)) (*Console, *httptest.Server) {
	t.Helper()
	c := newConsole(t, s, edit...)
	srv := serve(t, c)
	t.Cleanup(func() { b.do(t, chromedp.Navigate("about:blank")) })
	b.do(t, chromedp.Navigate(srv.URL+url))
	return c, srv
}

// slowScripts holds that a page goes live in whatever time its scripts come:
// htmx looks at the page once, and the extension must be there by then.
func (b *browser) slowScripts(t *testing.T) {
	c := newConsole(t, newSource())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hx-sse.min.js") || strings.HasSuffix(r.URL.Path, "/console.js") {
			time.Sleep(300 * time.Millisecond)
		}
		c.ServeHTTP(w, r)
	}))
	defer srv.Close()
	defer func() { _ = c.Close(context.Background()) }()
	b.do(t, chromedp.Navigate(srv.URL))
	b.until(t, isLive)
	b.do(t, chromedp.Navigate("about:blank"))
	b.quiet(t)
}

func (b *browser) live(t *testing.T) {
	s := newSource()
	b.visit(t, s, "/?window=1h")
	b.until(t, isLive+" && "+calls(2483)+` && document.fonts.check("16px Kalam")`)
	b.do(t, chromedp.Click(chromedp.CSS("#calls-table summary")))
	b.do(t, discard(chromedp.Evaluate[bool](`(window.kept = document.getElementById("calls")) !== null`)))
	for n := int64(3000); n < 3003; n++ {
		s.change(func(d *projections.Dashboard) { d.KPI.Calls = n })
		b.until(t, calls(n))
	}
	if !run(t, b, chromedp.Evaluate[bool](`document.getElementById("calls-table").open && window.kept === document.getElementById("calls")`)) {
		t.Error("an opened table closed, or the page was replaced instead of changed")
	}
	b.quiet(t)
}

// pause holds by the numbers that Pause stops, here and on the server.
func (b *browser) pause(t *testing.T) {
	s := newSource()
	c, _ := b.visit(t, s, "/?window=24h")
	b.until(t, isLive)
	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	b.until(t, `document.getElementById("live").textContent === "PAUSED" && location.search.includes("paused=1")`)
	for deadline := time.Now().Add(20 * time.Second); len(c.slots) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a paused page keeps its stream")
		}
	}
	asked := s.asked.Load()
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 4444 })
	other := open(t, httptestServer(t, c), "24h") // others still see it
	other.until("4,444")
	if got := run(t, b, chromedp.Evaluate[string](callsNow)); got != "2483" {
		t.Errorf("a paused page went on to %s", got)
	}
	if s.asked.Load() <= asked {
		t.Error("the other tab asked nothing")
	}
	b.do(t, chromedp.Click(chromedp.CSS("#refresh"))) // one look, still paused
	b.until(t, calls(4444))
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 5555 })
	b.do(t, chromedp.Reload())
	b.until(t, `document.getElementById("live").textContent === "PAUSED" && `+calls(5555))
	other.until("5,555")
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 6666 })
	other.until("6,666")
	if got := run(t, b, chromedp.Evaluate[string](callsNow)); got != "5555" {
		t.Errorf("a page that was loaded paused went on to %s", got)
	}
	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	b.until(t, isLive+" && "+calls(6666)+` && !location.search.includes("paused")`)
	b.quiet(t)
}

func httptestServer(t *testing.T, c *Console) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(c)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func (b *browser) reconnect(t *testing.T) {
	s := newSource()
	_, srv := b.visit(t, s, "/")
	b.until(t, isLive)
	b.do(t, discard(chromedp.Evaluate[bool](`(window.said = [], new MutationObserver(() => said.push(document.getElementById("live").textContent)).observe(document.getElementById("live"), {childList: true}), true)`)))
	srv.CloseClientConnections()
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 777 })
	b.until(t, `said.includes("RECONNECTING") && `+isLive+" && "+calls(777))
	b.complaints() // it may say that a connection broke
}

// refused holds that a refusal does not take the place of the numbers.
func (b *browser) refused(t *testing.T) {
	c, _ := b.visit(t, newSource(), "/", func(o *Options) { o.Streams = 1 })
	b.until(t, isLive)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.do(t, chromedp.Reload())
	b.until(t, `document.getElementById("live").textContent === "RECONNECTING" && `+calls(2483))
	b.complaints() // it says that status 503 came
}

func (b *browser) keys(t *testing.T) {
	s := newSource()
	b.visit(t, s, "/?window=7d")
	b.until(t, isLive)
	b.do(t, chromedp.KeyEvent("p"))
	b.until(t, `document.getElementById("live").textContent === "PAUSED"`)
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 31 })
	b.do(t, chromedp.KeyEvent("r"))
	b.until(t, calls(31))
	b.do(t, chromedp.KeyEvent("p"))
	b.until(t, isLive)
	b.do(t, discard(chromedp.Evaluate[bool](`(document.querySelector("[data-key=e]").addEventListener("click", (e) => { e.preventDefault(); window.exported = e.target.href; }), true)`)))
	b.do(t, chromedp.KeyEvent("e"))
	b.until(t, `window.exported?.endsWith("/api/dashboard?window=7d")`)
	res, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent("1"))
	if err != nil || !strings.HasSuffix(res.URL, "/?window=7d") {
		t.Errorf("key 1 went to %v: %v", res, err)
	}
	b.quiet(t)
}

// widths holds that nothing runs over the edge, down to a telephone.
func (b *browser) widths(t *testing.T) {
	s := newSource()
	s.change(func(d *projections.Dashboard) {
		d.Breakdown.Models[0].Name = strings.Repeat("a-model-with-a-long-name-", 8)
		d.DB.Notice = strings.Repeat("unbroken", 40)
	})
	_, srv := b.visit(t, s, "/")
	for _, width := range []int64{1440, 1024, 390} {
		for _, w := range []projections.Window{projections.Window1h, projections.Window14d} {
			b.do(t, chromedp.EmulateViewport(width, 900), chromedp.Navigate(srv.URL+"/?window="+string(w)))
			b.until(t, isLive+` && document.fonts.status === "loaded"`)
			over := run(t, b, chromedp.Evaluate[string](`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, svg, .unseen")).map(e => e.tagName + "." + e.className).join(" ")`))
			if over != "" {
				t.Errorf("%d px, %s: over the edge: %s", width, w, over)
			}
		}
	}
	b.do(t, chromedp.ResetViewport())
	b.quiet(t)
}

func (b *browser) themes(t *testing.T) {
	_, srv := b.visit(t, newSource(), "/")
	background := chromedp.Evaluate[string](`getComputedStyle(document.documentElement).backgroundColor`)
	const light, dark = "rgb(245, 236, 218)", "rgb(31, 27, 25)"
	for _, system := range []string{"light", "dark"} {
		feature := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: system}}
		b.do(t, func(ctx context.Context, tg *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, tg, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: feature})
			return chromedp.Void{}, err
		})
		for theme, want := range map[string]string{"": map[string]string{"light": light, "dark": dark}[system], "&theme=light": light, "&theme=dark": dark} {
			b.do(t, chromedp.Navigate(srv.URL+"/?window=1h"+theme))
			if got := run(t, b, background); got != want {
				t.Errorf("system %s, %q: background %s, want %s", system, theme, got, want)
			}
		}
	}
	b.quiet(t)
}

func (b *browser) withoutScript(t *testing.T) {
	disable := func(off bool) chromedp.Action[chromedp.Void] {
		return func(ctx context.Context, tg *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, tg, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
			return chromedp.Void{}, err
		}
	}
	b.do(t, disable(true))
	defer b.do(t, disable(false))
	s := newSource()
	b.visit(t, s, "/?window=24h")
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 12 })
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS("#refresh"))); err != nil {
		t.Fatal(err)
	}
	if got := run(t, b, chromedp.Text(chromedp.CSS("#kpi-calls data"))); got != "12" {
		t.Errorf("Refresh without script shows %s", got)
	}
	if got := run(t, b, chromedp.Text(chromedp.CSS(".controls"))); strings.Contains(got, "CONNECTING") || !strings.Contains(got, "RELOAD FOR NEWS") {
		t.Errorf("without script the controls say %q", got)
	}
	b.quiet(t)
}

// TestScreens keeps pictures of every state for a person to judge.
func TestScreens(t *testing.T) {
	dir := os.Getenv("ICYLOOM_SCREENS")
	if dir == "" {
		t.Skip("SKIPPED: pictures of the console were not tried: set ICYLOOM_SCREENS to a directory for them")
	}
	b := startBrowser(t)
	empty, stalled, broken := newSource(), newSource(), newSource()
	empty.change(func(d *projections.Dashboard) {
		*d = projections.Dashboard{Window: d.Window, KPI: projections.KPI{Target: .35}, DB: projections.DB{State: "live", Version: 3}}
	})
	stalled.change(func(d *projections.Dashboard) {
		d.DB.State, d.DB.Error, d.DB.LagUS, d.KPI.Gaps = "stalled", "fold event 18205: disk I/O error", 754_000_000, 3
	})
	broken.fail(errors.New("open icyloom.db: permission denied"))
	for _, state := range []struct {
		name    string
		s       *source
		windows []projections.Window
	}{{"busy", newSource(), windows}, {"empty", empty, windows[:1]}, {"stalled", stalled, windows[1:2]}, {"broken", broken, windows[:1]}} {
		srv := serve(t, newConsole(t, state.s))
		for _, w := range state.windows {
			for _, theme := range []string{"light", "dark"} {
				for _, width := range []int64{1440, 1024, 390} {
					b.do(t, chromedp.EmulateViewport(width, 900), chromedp.Navigate(fmt.Sprintf("%s/?window=%s&theme=%s", srv.URL, w, theme)))
					b.until(t, isLive+` && document.fonts.status === "loaded"`)
					file := fmt.Sprintf("%s-%s-%s-%d.png", state.name, w, theme, width)
					if err := os.WriteFile(filepath.Join(dir, file), run(t, b, chromedp.FullScreenshot(100)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		b.do(t, chromedp.Navigate("about:blank"))
	}
}
