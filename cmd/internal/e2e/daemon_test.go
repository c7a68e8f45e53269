package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that should happen at once.
const patience = 30 * time.Second

// setup says how a daemon is started.
type setup struct {
	// Home is the state folder; "" makes one for the test.
	Home string
	// OpenAI and Anthropic are the base URLs of the two upstreams, without /v1.
	OpenAI, Anthropic string
	// Gateway are further keys of the gateway section, as a YAML flow ("a: 1, b: 2").
	Gateway string
	// More are further sections, as YAML.
	More string
}

// daemon is one running program with its ports.
type daemon struct {
	setup
	config           string
	gateway, console string // base URLs
	http             *http.Client
	cmd              *exec.Cmd
	stderr           *output
	exited           chan struct{}
}

// output keeps what a process writes, for a test to read while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// tail is the end of what was written, for a failure's message.
func (o *output) tail() string {
	s := o.String()
	return s[max(0, len(s)-2000):]
}

// start runs a daemon until the test ends, and returns when it is ready.
func start(t *testing.T, s setup) *daemon {
	t.Helper()
	d := launch(t, s)
	d.ready(t)
	return d
}

// launch runs a daemon without waiting for it.
func launch(t *testing.T, s setup) *daemon {
	t.Helper()
	if s.Home == "" {
		s.Home = t.TempDir()
	}
	d := &daemon{setup: s, http: newClient()}
	t.Cleanup(d.http.CloseIdleConnections)
	d.configure(t)
	d.run(t)
	t.Cleanup(func() { d.end(t) })
	return d
}

// configure writes the configuration beside the home, with free ports.
func (d *daemon) configure(t *testing.T) {
	t.Helper()
	gw, con := freePort(t), freePort(t)
	d.gateway, d.console = "http://"+gw, "http://"+con
	var b strings.Builder
	fmt.Fprintf(&b, "gateway: {listen: %q", gw)
	if d.Gateway != "" {
		b.WriteString(", " + d.Gateway)
	}
	b.WriteString("}\nconsole: {listen: \"" + con + "\"}\nupstreams:\n")
	fmt.Fprintf(&b, "  openai: {base_url: %q, family: openai, models: [\"gpt-*\"]}\n", d.OpenAI+"/v1")
	fmt.Fprintf(&b, "  anthropic: {base_url: %q, family: anthropic, models: [\"claude-*\"]}\n", d.Anthropic)
	b.WriteString(d.More)
	d.config = writeConfig(t, b.String())
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "icyloom.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts the process on the daemon's home and configuration.
func (d *daemon) run(t *testing.T) {
	t.Helper()
	d.stderr, d.exited = &output{}, make(chan struct{})
	d.cmd = exec.Command(os.Getenv(binaryEnv), "serve", "--config", d.config)
	d.cmd.Env = environment(d.Home, d.config)
	d.cmd.Stderr = d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		_ = cmd.Wait() // the state is in cmd.ProcessState
	}(d.cmd, d.exited)
}

// environment is all that a process under test sees of ours.
func environment(home, config string) []string {
	return []string{
		"ICYLOOM_HOME=" + home, "ICYLOOM_CONFIG=" + config, "HOME=" + home,
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
	}
}

// ready waits until /healthz answers 200.
func (d *daemon) ready(t *testing.T) {
	t.Helper()
	d.health(t, func(status int, _ string) bool { return status == http.StatusOK })
}

// health polls /healthz until ok says so, and fails with what it said last.
func (d *daemon) health(t *testing.T, ok func(status int, body string) bool) {
	t.Helper()
	var last string
	eventually(t, "the daemon's health", func() bool {
		select {
		case <-d.exited:
			t.Fatalf("the daemon ended: %v\n%s", d.cmd.ProcessState, d.stderr.tail())
		default:
		}
		status, body, err := get(d.gateway + "/healthz")
		last = fmt.Sprint(status, body, err)
		return err == nil && ok(status, body)
	}, func() string { return last + "\n" + d.stderr.tail() })
}

// end stops the process as a person would, and fails the test when it does not
// leave in good order.
func (d *daemon) end(t *testing.T) {
	t.Helper()
	select {
	case <-d.exited:
		return
	default:
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("SIGTERM: %v", err)
	}
	select {
	case <-d.exited:
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the daemon left with %d:\n%s", code, d.stderr.tail())
		}
	case <-time.After(patience):
		d.kill(t)
		t.Errorf("the daemon did not leave on SIGTERM:\n%s", d.stderr.tail())
	}
}

// kill ends the process with SIGKILL and waits for it.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-d.exited
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// command runs the program on a home with a configuration; "" is none.
func command(t *testing.T, home, config string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv(binaryEnv), args...)
	cmd.Env = environment(home, config)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("icyloom %s: %v", strings.Join(args, " "), err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// cli runs a command on the daemon's home, which must succeed.
func (d *daemon) cli(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, d.Home, d.config, args...)
	if r.code != 0 {
		t.Fatalf("icyloom %s left with %d:\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// event is one line of `icyloom export --format jsonl`.
type event struct {
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id"`
	At      time.Time       `json:"at"`
	Kind    string          `json:"kind"`
	Client  string          `json:"client"`
	Session string          `json:"session"`
	Data    json.RawMessage `json:"data"`
}

// export reads the whole log.
func (d *daemon) export(t *testing.T) []event {
	t.Helper()
	return parseExport(t, d.cli(t, "export", "--format", "jsonl"))
}

func parseExport(t *testing.T, text string) []event {
	t.Helper()
	var out []event
	for line := range strings.Lines(text) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("export: %v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// freePort returns a loopback address that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually waits for a condition; more says what was seen instead.
func eventually(t *testing.T, what string, ok func() bool, more func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, patience, more())
		}
		time.Sleep(5 * time.Millisecond)
	}
}
