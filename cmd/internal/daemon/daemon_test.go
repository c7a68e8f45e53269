//go:build linux

package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/cmd/internal/daemon"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newHome is a home with a path short enough for its socket.
func newHome(t *testing.T) home.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "loom")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h, err := home.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// options are a daemon over one upstream, on free ports.
func options(t *testing.T, h home.Home, upstream string) daemon.Options {
	t.Helper()
	c := config.Default(nil)
	c.Gateway.Listen, c.Console.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Upstreams = map[string]config.Upstream{"openai": {BaseURL: upstream, Family: "openai"}}
	env := func(string) string { return "" }
	if err := c.Check(env); err != nil {
		t.Fatal(err)
	}
	return daemon.Options{Home: h, Config: c, Env: env, Gateway: true, Console: true, Version: "test"}
}

func start(t *testing.T, o daemon.Options) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// calls are the outcomes of the llm.call events in a home's log.
func calls(t *testing.T, h home.Home, c config.Config) (outcomes []events.Outcome) {
	t.Helper()
	l, err := daemon.OpenLedger(t.Context(), daemon.LedgerOptions{Home: h, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	err = l.Log.Read(t.Context(), 1, 0, func(batch []events.Record) error {
		for _, r := range batch {
			var call events.LLMCall
			if r.Event.Kind == events.KindLLMCall && json.Unmarshal(r.Event.Data, &call) == nil {
				outcomes = append(outcomes, call.Outcome)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

// TestAStreamThatOutlivesTheGraceIsCutAndBooked stops a daemon whose upstream
// never ends its answer.
func TestAStreamThatOutlivesTheGraceIsCutAndBooked(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer up.Close()
	h := newHome(t)
	o := options(t, h, up.URL+"/v1")
	o.Grace = 100 * time.Millisecond
	d := start(t, o)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(d.GatewayURL()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("first line %q, %v", line, err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := calls(t, h, o.Config); len(got) != 1 || got[0] == events.OutcomeMiss {
		t.Errorf("outcomes %v; want one, of an answer that was broken off", got)
	}
}

func TestOneHomeOneDaemon(t *testing.T) {
	h := newHome(t)
	o := options(t, h, "http://127.0.0.1:1/v1")
	d := start(t, o)
	var locked *home.LockedError
	if _, err := daemon.Start(t.Context(), o); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("a second daemon: %v", err)
	}
	c, err := control.Dial(t.Context(), h.Socket())
	if err != nil {
		t.Fatalf("the first one no longer answers: %v", err)
	}
	defer c.Close()
	if c.Hello.Gateway != d.GatewayURL() || c.Hello.ConfigHash != o.Config.Hash() {
		t.Errorf("hello: %+v", c.Hello)
	}
	for _, check := range must(c.Checks(t.Context()))(t) {
		if check.Status != "ok" {
			t.Errorf("check: %+v", check)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestCorruptTablesAreRebuiltAndSaid(t *testing.T) {
	h := newHome(t)
	o := options(t, h, "http://127.0.0.1:1/v1")
	d := start(t, o)
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(h.Projections(), "*.db"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = start(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	store := d.Ledger().Store
	for changed := store.Changed(); store.Status().State != "live"; changed = store.Changed() {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("status: %+v; want live", store.Status())
		}
	}
	if s := store.Status(); s.Notice == "" {
		t.Errorf("status: %+v; want a notice", s)
	}
}

func TestAReadOnlyHomeIsRefusedWithItsFix(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("SKIPPED: a home that cannot be written was not tried: a read-only file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	h, err := home.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = daemon.Start(t.Context(), options(t, h, "http://127.0.0.1:1/v1"))
	if err == nil || !strings.Contains(err.Error(), "the file system is read-only") || !strings.Contains(err.Error(), "--home") {
		t.Errorf("%v; want one sentence with the fix", err)
	}
}

func TestAFailedStartLeavesNothingBehind(t *testing.T) {
	h := newHome(t)
	o := options(t, h, "http://127.0.0.1:1/v1")
	o.Config.Console.Listen = "192.0.2.1:1" // an address that no machine has
	if _, err := daemon.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "console.listen") {
		t.Fatalf("%v", err)
	}
	if _, held := h.Holder(); held {
		t.Error("the home is still held")
	}
	start(t, options(t, h, "http://127.0.0.1:1/v1"))
}

// A token read from a file brings the file's line end along, which no header can.
func TestTokenWithItsFilesLineEnd(t *testing.T) {
	o := options(t, newHome(t), "http://127.0.0.1:1/v1")
	o.Config.Auth.TokenEnv = "TOKEN"
	o.Env = func(string) string { return "0123456789abcdef\n" }
	d := start(t, o)
	req, err := http.NewRequest(http.MethodGet, d.GatewayURL()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer 0123456789abcdef")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}
