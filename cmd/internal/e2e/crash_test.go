package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// receipts are the event ids of answers that arrived whole.
type receipts struct {
	mu  sync.Mutex
	ids map[string]string // id → what was asked
	bad []string
}

func (r *receipts) add(id, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.ids[id]; twice || id == "" {
		r.bad = append(r.bad, fmt.Sprintf("%s has event id %q, which is empty or another answer's", what, id))
	}
	r.ids[id] = what
}

func (r *receipts) fault(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = append(r.bad, fmt.Sprintf(format, a...))
}

func (r *receipts) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

// crowd is 16 clients that ask without a pause until they are told to stop: new
// requests and ones asked before, of all protocols and forms.
type crowd struct {
	d    *daemon
	got  *receipts
	seed uint64
	// strict: a failed request is a fault, not the end of the daemon.
	strict bool
	// turns is how many messages a request has; 0 is 1.
	turns int

	stop chan struct{}
	done sync.WaitGroup
}

const crowdSize = 16

func gather(t *testing.T, c *crowd) *crowd {
	c.stop = make(chan struct{})
	for n := range crowdSize {
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			c.client(t, n, rand.New(rand.NewPCG(c.seed, uint64(n))))
		}()
	}
	return c
}

// disperse stops the clients and waits for them.
func (c *crowd) disperse() {
	close(c.stop)
	c.done.Wait()
}

func (c *crowd) client(t *testing.T, n int, random *rand.Rand) {
	apis := []events.API{events.APIChat, events.APIResponses, events.APIMessages}
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		default:
		}
		asked := i
		if i > 0 && random.IntN(3) == 0 {
			asked = random.IntN(i) // asked before: a hit, where it was answered
		}
		r := riddle{apis[(n+asked)%3], fmt.Sprintf("sk-crowd-%d", n), crowdBody(apis[(n+asked)%3], n, asked, c.turns)}
		what := fmt.Sprintf("client %d, request %d", n, asked)
		a, fault := r.send(t, c.d, form(random.IntN(2) == 1))
		switch {
		case finished(r.api, a):
			c.got.add(a.header.Get(headerEvent), what)
			if a.err == nil && fault != "" {
				c.got.fault("%s: %s", what, fault)
			}
		case c.strict:
			c.got.fault("%s: %s", what, fault)
		default:
			return // the daemon is gone
		}
	}
}

func crowdBody(api events.API, n, i, turns int) object {
	messages := []any{object{"role": "user", "content": fmt.Sprintf("client %d asks %d", n, i)}}
	for k := len(messages); k < turns; k++ {
		messages = append(messages, object{"role": [2]string{"user", "assistant"}[k%2], "content": fmt.Sprint(n, i, k)})
	}
	if api == events.APIResponses {
		return object{"model": "gpt-5", "input": messages}
	}
	return object{"model": "gpt-5", "max_tokens": 100, "messages": messages}
}

// TestCrash kills the daemon with SIGKILL at a random moment under load, again
// and again on one home: every answer whose end a client saw has its event,
// once, and the tables are those that follow from the log.
func TestCrash(t *testing.T) {
	up := oracleUpstream(t)
	s := setup{Home: t.TempDir(), OpenAI: up.URL, Anthropic: up.URL}
	d := start(t, s)
	got := &receipts{ids: map[string]string{}}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := envInt(t, "ICYLOOM_E2E_ROUNDS", 3)
	t.Logf("seed %d, %d rounds", seed, rounds)
	for round := range rounds {
		before := got.count()
		c := gather(t, &crowd{d: d, got: got, seed: seed + uint64(round)})
		eventually(t, "answers before the crash", func() bool { return got.count() >= before+crowdSize }, d.stderr.tail)
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // the random moment itself
		d.kill(t)
		c.disperse()
		d.run(t)
		d.ready(t)
		checkReceipts(t, d, got)
		checkReplay(t, d)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	t.Logf("%d answers arrived whole", got.count())
}

// checkReceipts holds the log to what clients were given.
func checkReceipts(t *testing.T, d *daemon, got *receipts) {
	t.Helper()
	booked := calls(t, d.export(t)) // says when one is there twice
	missing := 0
	got.mu.Lock()
	defer got.mu.Unlock()
	for id, what := range got.ids {
		if _, ok := booked[id]; !ok {
			if missing++; missing < 10 {
				t.Errorf("%s was answered, and its event %s is not in the log", what, id)
			}
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d answered requests have no event", missing, len(got.ids))
	}
	for _, b := range got.bad {
		t.Error(b)
	}
}

// checkReplay has the program fold its log again and compare.
func checkReplay(t *testing.T, d *daemon) {
	t.Helper()
	var r struct {
		Seq      uint64 `json:"seq"`
		Compared bool   `json:"compared"`
		Same     bool   `json:"same"`
		Tables   []struct {
			Name string `json:"name"`
			Same bool   `json:"same"`
		} `json:"tables"`
	}
	out := d.cli(t, "replay", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("replay --json: %v in %q", err, out)
	}
	if !r.Compared || !r.Same || r.Seq == 0 || len(r.Tables) == 0 {
		t.Errorf("the tables are not what follows from the log: %s", out)
	}
}
