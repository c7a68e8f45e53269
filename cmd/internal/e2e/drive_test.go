package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// job is one request for node/drive.mjs.
type job struct {
	// Client is "sdk" or "vercel"; "" is the former.
	Client  string     `json:"client"`
	API     events.API `json:"api"`
	Base    string     `json:"base"`
	Key     string     `json:"key"`
	Stream  bool       `json:"stream"`
	Request any        `json:"request"`
}

// seen is what a client made of an answer.
type seen struct {
	Cache, Event, Error string
	Object              object
}

// nodeModules finds the folder with the installed clients, or skips the test.
func nodeModules(t *testing.T, packages ...string) string {
	t.Helper()
	dir := os.Getenv("ICYLOOM_NODE_MODULES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", ".cache", "node", "node_modules")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range packages {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Skipf("SKIPPED: the real clients were not tried: no npm package %s in %s; make deps installs them", name, dir)
		}
	}
	return dir
}

// driver is a Node process with the clients. Several goroutines may ask it.
type driver struct {
	cmd    *exec.Cmd
	stderr output

	write sync.Mutex // of stdin; never held with mu, which the reader of the answers needs
	stdin io.WriteCloser

	mu   sync.Mutex
	wait map[int]chan seen // by job; nil once Node has ended
	next int
	done chan struct{} // closed when Node's output has ended
}

// drive starts Node with the clients until the test ends, or skips the test.
func drive(t *testing.T) *driver {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("SKIPPED: the real clients were not tried: no node in PATH; make deps installs it")
	}
	modules := nodeModules(t, "openai", "@anthropic-ai/sdk", "ai", "@ai-sdk/openai", "@ai-sdk/anthropic")
	ctx, cancel := context.WithCancel(context.Background())
	n := &driver{wait: map[int]chan seen{}, done: make(chan struct{})}
	n.cmd = exec.CommandContext(ctx, "node", filepath.Join("node", "drive.mjs"), modules)
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	n.cmd.Stderr = &n.stderr
	stdin, err := n.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	n.stdin = stdin
	stdout, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go n.read(stdout)
	t.Cleanup(func() {
		cancel()
		<-n.done
		_ = n.cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("node said: %s", n.stderr.tail())
		}
	})
	return n
}

// read hands the lines of Node's output to who waits for them.
func (n *driver) read(stdout io.Reader) {
	defer close(n.done)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct {
			ID int
			seen
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			fmt.Fprintf(&n.stderr, "%v in %.200q", err, lines.Bytes())
			break
		}
		n.mu.Lock()
		c := n.wait[line.ID]
		delete(n.wait, line.ID)
		n.mu.Unlock()
		if c != nil {
			c <- line.seen
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.wait {
		close(c)
	}
	n.wait = nil
}

// ask has a client send one request, and returns what it made of the answer.
// Its error says that Node itself failed.
func (n *driver) ask(ctx context.Context, j job) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	c := make(chan seen, 1)
	n.mu.Lock()
	if n.wait == nil {
		n.mu.Unlock()
		return seen{}, fmt.Errorf("node has ended: %s", n.stderr.tail())
	}
	n.next++
	id := n.next
	n.wait[id] = c
	n.mu.Unlock()
	n.write.Lock()
	_, err := fmt.Fprintf(n.stdin, "%s\n", encode(struct {
		ID int `json:"id"`
		job
	}{id, j}))
	n.write.Unlock()
	if err != nil {
		return seen{}, fmt.Errorf("node: %w: %s", err, n.stderr.tail())
	}
	select {
	case s, ok := <-c:
		if !ok {
			return seen{}, fmt.Errorf("node ended: %s", n.stderr.tail())
		}
		return s, nil
	case <-ctx.Done():
		return seen{}, fmt.Errorf("%s %s: no answer from the client: %w", j.Client, j.API, ctx.Err())
	}
}

// all sends jobs one after the other.
func (n *driver) all(t *testing.T, jobs []job) []seen {
	t.Helper()
	out := make([]seen, len(jobs))
	for i, j := range jobs {
		var err error
		if out[i], err = n.ask(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
