package control_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is a path short enough for one.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loom")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func service() control.Service {
	return control.Service{
		Hello: func() control.Hello {
			return control.Hello{Protocol: control.Protocol, Version: "1.2.3", PID: 42, Gateway: "http://g"}
		},
		Checks: func(context.Context) []control.Check {
			return []control.Check{{Name: "log", Status: "fail", Text: "a hole", Fix: "mend"}}
		},
		Dashboard: func(_ context.Context, w projections.Window) (projections.Dashboard, error) {
			if w == projections.Window7d {
				return projections.Dashboard{}, errors.New("stalled; restart")
			}
			return projections.Dashboard{Window: w}, nil
		},
		Replay: func(_ context.Context, r audit.ReplayRequest, progress func(projections.Progress)) (audit.ReplayReport, error) {
			progress(projections.Progress{Applied: 1, Head: 2})
			if r.File == "full" {
				return audit.ReplayReport{}, errors.New("disk full")
			}
			report := audit.ReplayReport{Seq: r.Until.Seq, File: r.File, Same: true}
			if r.Repair {
				report.Repaired = []string{"series"}
			}
			return report, nil
		},
		Export: func(_ context.Context, w io.Writer, o audit.ExportOptions) (audit.Exported, error) {
			if o.From.Seq == 9 {
				return audit.Exported{}, nil
			}
			_, err := io.WriteString(w, "a\nb\n")
			if o.Format == audit.FormatCSV {
				err = errors.New("a hole at 3")
			}
			return audit.Exported{Events: 2, Last: o.To.Seq}, err
		},
		Cache: cacheService(),
	}
}

// dial starts a server and a client of it.
func dial(t *testing.T, path string, s control.Service) *control.Client {
	t.Helper()
	srv, err := control.Listen(path, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := control.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEveryAnswerArrives(t *testing.T) {
	path := socket(t)
	c := dial(t, path, service())
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st.Mode(), err)
	}
	if c.Hello.PID != 42 || c.Hello.Gateway != "http://g" {
		t.Errorf("hello: %+v", c.Hello)
	}
	checks, err := c.Checks(t.Context())
	if err != nil || len(checks) != 1 || checks[0].Fix != "mend" {
		t.Errorf("checks: %+v, %v", checks, err)
	}
	if d, err := c.Dashboard(t.Context(), projections.Window1h); err != nil || d.Window != projections.Window1h {
		t.Errorf("dashboard: %+v, %v", d.Window, err)
	}
	steps := 0
	r, err := c.Replay(t.Context(), audit.ReplayRequest{Until: audit.Point{Seq: 7}, File: "f"}, func(p projections.Progress) { steps += int(p.Head) })
	if err != nil || r.Seq != 7 || r.File != "f" || !r.Same || r.Repaired != nil || steps != 2 {
		t.Errorf("replay: %+v, %v, progress %d", r, err, steps)
	}
	r, err = c.Replay(t.Context(), audit.ReplayRequest{Repair: true}, nil)
	if err != nil || r.Seq != 0 || !slices.Equal(r.Repaired, []string{"series"}) {
		t.Errorf("a replay that repairs: %+v, %v", r, err)
	}
	var out bytes.Buffer
	done, err := c.Export(t.Context(), &out, audit.ExportOptions{Format: audit.FormatJSONL, To: audit.Point{Seq: 5}})
	if err != nil || out.String() != "a\nb\n" || done.Events != 2 || done.Last != 5 {
		t.Errorf("export: %q, %+v, %v", out.String(), done, err)
	}
	if done, err := c.Export(t.Context(), &out, audit.ExportOptions{From: audit.Point{Seq: 9}}); err != nil || done.Events != 0 {
		t.Errorf("an empty export: %+v, %v", done, err)
	}
}

func TestFaultsArriveAsTheyWereSaid(t *testing.T) {
	c := dial(t, socket(t), service())
	if _, err := c.Dashboard(t.Context(), projections.Window7d); err == nil || err.Error() != "stalled; restart" {
		t.Errorf("dashboard: %v", err)
	}
	if _, err := c.Replay(t.Context(), audit.ReplayRequest{File: "full"}, nil); err == nil || err.Error() != "disk full" {
		t.Errorf("replay: %v", err)
	}
	if _, err := c.Export(t.Context(), io.Discard, audit.ExportOptions{Format: audit.FormatCSV}); err == nil || err.Error() != "a hole at 3" {
		t.Errorf("export: %v; a fault after the first bytes must not look like an end", err)
	}
}

func TestNobodyListens(t *testing.T) {
	path := socket(t)
	if _, err := control.Dial(t.Context(), path); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("no socket: %v", err)
	}
	// What a killed daemon leaves behind is no daemon, and no obstacle.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Dial(t.Context(), path); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("a dead socket: %v", err)
	}
	dial(t, path, service())
}

func TestAnotherProtocolIsOneClearSentence(t *testing.T) {
	s := service()
	s.Hello = func() control.Hello { return control.Hello{Protocol: control.Protocol + 1} }
	path := socket(t)
	srv, err := control.Listen(path, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "restart the daemon") {
		t.Errorf("a newer daemon: %v", err)
	}
	// An older or foreign asker is told by the daemon.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	res, err := client.Get("http://icyloom/hello")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUpgradeRequired || !strings.Contains(string(text), "restart the daemon") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if err := srv.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	begun := make(chan struct{})
	s := service()
	s.Replay = func(ctx context.Context, _ audit.ReplayRequest, _ func(projections.Progress)) (audit.ReplayReport, error) {
		close(begun)
		<-ctx.Done()
		return audit.ReplayReport{}, ctx.Err()
	}
	path := socket(t)
	srv, err := control.Listen(path, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Replay(t.Context(), audit.ReplayRequest{}, nil)
		failed <- err
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := srv.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a replay that was cut looked whole")
	}
}
