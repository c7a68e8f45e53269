package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/icyloom/icyloom/cmd/internal/cli"
	"github.com/icyloom/icyloom/cmd/internal/control"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"icyloom": program})
}

// program is cmd/icyloom's main.
func program() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			// A short path: the control socket lies in the home.
			home, err := os.MkdirTemp("", "loom")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(home) })
			env.Setenv("ICYLOOM_HOME", filepath.Join(home, "h"))
			env.Setenv("HOME", home)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready":    ready,
			"upstream": upstream,
			"http":     httpRequest,
			"expect":   expect,
			"taken":    taken,
			"free":     free,
			"alter":    alter,
			"until":    until,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(2 * time.Minute),
	})
}

// ready waits until the daemon of a home (default: $ICYLOOM_HOME) answers, and
// sets $GATEWAY and $CONSOLE to its URLs. With "not" it waits until none does.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	home := ts.Getenv("ICYLOOM_HOME")
	if len(args) > 0 {
		home = ts.MkAbs(args[0])
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		c, err := control.Dial(context.Background(), filepath.Join(home, "s"))
		if err == nil {
			c.Close()
		}
		switch {
		case neg && err != nil:
			return
		case !neg && err == nil:
			ts.Setenv("GATEWAY", c.Hello.Gateway)
			ts.Setenv("CONSOLE", c.Hello.Console)
			ts.Setenv("PID", strconv.Itoa(c.Hello.PID))
			return
		case time.Now().After(deadline):
			ts.Fatalf("daemon of %s: %v", home, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// upstream NAME starts a chat API and sets $NAME to its base URL. An answer to a
// body with "slow" in it pauses in mid-stream for half a second.
func upstream(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	srv := &http.Server{Handler: http.HandlerFunc(chat)}
	go func() { _ = srv.Serve(l) }()
	ts.Defer(func() { _ = srv.Close() })
	ts.Setenv(args[0], "http://"+l.Addr().String()+"/v1")
}

func chat(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	const usage = `"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}`
	model := "gpt-4.1-mini"
	if bytes.Contains(body, []byte(`"model":"local"`)) {
		model = "local" // a model without a price
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"`+model+`","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],`+usage+`}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices, rest string) {
		_, _ = io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"`+model+`","choices":[`+choices+`]`+rest+"}\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	chunk(`{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}`, "")
	if bytes.Contains(body, []byte("slow")) {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	chunk(`{"index":0,"delta":{"content":"lo."},"finish_reason":"stop"}`, "")
	chunk("", ","+usage)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// httpRequest METHOD URL [BODYFILE [Header: value]…] prints status, chosen
// headers and body to stdout. It fails when there is no whole answer.
func httpRequest(ts *testscript.TestScript, neg bool, args []string) {
	var body []byte
	if len(args) > 2 && args[2] != "-" {
		body = []byte(ts.ReadFile(args[2]))
	}
	req, err := http.NewRequest(args[0], args[1], bytes.NewReader(body))
	ts.Check(err)
	for _, h := range args[min(3, len(args)):] {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	text, err := answer(req)
	if neg != (err != nil) {
		ts.Fatalf("%s %s: %v", args[0], args[1], err)
	}
	_, err = io.WriteString(ts.Stdout(), text)
	ts.Check(err)
}

// expect PATTERN URL asks again until the answer matches: pages follow the log
// within a moment, not at once.
func expect(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[0])
	var text string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodGet, args[1], nil)
		ts.Check(err)
		if text, err = answer(req); err == nil && pattern.MatchString(text) {
			return
		}
	}
	ts.Fatalf("%s never matched %s; last:\n%.500s", args[1], args[0], text)
}

func answer(req *http.Request) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return "status " + strconv.Itoa(res.StatusCode) + "\ncache " + res.Header.Get("X-Icyloom-Cache") + "\n" + string(data) + "\n", err
}

// until COMMAND… runs a command until it succeeds: what waits to be written is
// not on disk at once.
func until(ts *testscript.TestScript, _ bool, args []string) {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
	}
	ts.Fatalf("%v never succeeded: %v", args, err)
}

// taken NAME listens on a port for the rest of the script, and sets $NAME.
func taken(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// free NAME… sets each to an address that nobody listens on.
func free(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Setenv(name, l.Addr().String())
		ts.Check(l.Close())
	}
}

// alter DIR OLD NEW puts one text for another, of the same length, into the
// tables in a folder that no process has open: rows that no event made.
func alter(ts *testscript.TestScript, _ bool, args []string) {
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*.db"))
	ts.Check(err)
	changed := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		changed += bytes.Count(data, []byte(args[1]))
		ts.Check(os.WriteFile(file, bytes.ReplaceAll(data, []byte(args[1]), []byte(args[2])), 0o600))
	}
	if changed == 0 || len(args[1]) != len(args[2]) {
		ts.Fatalf("%q is %d times in %v", args[1], changed, files)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	out, banner := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- cli.Main(ctx, []string{"serve", "--gateway-listen", "127.0.0.1:0", "--console-listen", "127.0.0.1:0"},
			strings.NewReader(""), banner, io.Discard, []string{"ICYLOOM_HOME=" + dir})
		_ = banner.Close()
	}()
	first := make([]byte, 64)
	n, err := out.Read(first)
	if err != nil || !strings.Contains(string(first[:n]), "is ready") {
		t.Fatalf("banner: %q, %v", first[:n], err)
	}
	stop()
	if _, err := io.Copy(io.Discard, out); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	if code := <-done; code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
