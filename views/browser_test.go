package views

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a real browser with what it complained about.
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
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("SKIPPED: no chromium found; install it to test the console in a browser (Debian: apt-get install chromium)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // a browser refuses to run as root with it
	}
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	b := &browser{}
	b.ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	b.do(t, chromedp.Navigate("about:blank"))
	return b
}

var _ = []any{audits.Enable, log.Enable, emulation.SetEmulatedMedia, runtime.Enable}

func (b *browser) listen(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *audits.EventIssueAdded:
		if ev.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			b.bad = append(b.bad, "content security policy: "+string(ev.Issue.Code))
		}
	case *log.EventEntryAdded:
		b.bad = append(b.bad, "log: "+ev.Entry.Text+" "+ev.Entry.URL)
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, "exception: "+ev.ExceptionDetails.Text)
	}
}

func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.bad, "\n")
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

func TestScreens(t *testing.T) {
	dir := os.Getenv("ICYLOOM_SCREENS")
	if dir == "" {
		t.Skip("set ICYLOOM_SCREENS to a directory to keep screenshots")
	}
	b := startBrowser(t)
	c := newConsole(t, newSource())
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for _, win := range []string{"24h", "1h"} {
		for _, theme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 1024, 390} {
				b.do(t, chromedp.EmulateViewport(width, 900), chromedp.Navigate(srv.URL+"/?window="+win+"&theme="+theme))
				run(t, b, chromedp.Poll[bool](`document.fonts.status === "loaded" && document.getElementById("live").dataset.state === "live"`))
				png := run(t, b, chromedp.FullScreenshot(100))
				file := filepath.Join(dir, win+"-"+theme+"-"+map[int64]string{1440: "1440", 1024: "1024", 390: "390"}[width]+".png")
				if err := os.WriteFile(file, png, 0o600); err != nil {
					t.Fatal(err)
				}
				over := run(t, b, chromedp.Evaluate[float64](`document.documentElement.scrollWidth - innerWidth`))
				t.Log(file, "overflow", over)
			}
		}
	}
	if bad := b.complaints(); bad != "" {
		t.Error(bad)
	}
}
