package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

const (
	// soakEnv says how long the soak takes.
	soakEnv = "ICYLOOM_SOAK"
	// soakRate is how many requests arrive in a second, however long they take.
	soakRate = 200
	// soakStreams is how many slow streams run all the time beside them.
	soakStreams = 200
	// soakWarmUp is how long the same load runs before anything is compared: pools
	// and tables have their size then.
	soakWarmUp = 10 * time.Second
	// soakSlack is what goroutines and files may differ by at rest.
	soakSlack = 5
	// soakHeap is what the heap may grow by, beyond what the cache is for: the two
	// blocks of the log that NATS has in memory while it writes, 8 MiB each, and some
	// 250 bytes for each request of ten minutes.
	soakHeap = 48 << 20
	// soakRSS is what the process may grow by in the second half.
	soakRSS = 64 << 20
	// soakKnown is what the index may take for each answer that it knows.
	soakKnown = 512
)

// soak is a load and what became of it.
type soak struct {
	d   *daemon
	up  *httptest.Server
	got *receipts
	// made counts requests, asked those under way at the mixed rate, peak the most of
	// them, missed the repeats that were no hits.
	made, asked, peak, missed atomic.Int64
	// leaves are the clients to send away once their request has reached the
	// upstream, by prompt.
	leaves sync.Map
	rounds [soakStreams]int // of each slow stream

	mu       sync.Mutex
	answered []soakAsk                 // what may be asked again, the latest
	said     map[string]map[string]int // kind → what the cache header said → how many
}

// TestSoak serves a mixed load for a long time, and nothing is left of it: no
// goroutine, no connection, no file, no memory but the cache's own. Every whole
// answer is the right one, and every request has its event, once.
func TestSoak(t *testing.T) {
	length := soakLength(t)
	s := &soak{got: &receipts{ids: map[string]string{}}, said: map[string]map[string]int{}}
	s.up = s.upstream(t)
	s.d = start(t, setup{
		OpenAI: s.up.URL, Anthropic: s.up.URL, Gateway: "breaker: {failures: 1000000, reset: 1s}",
		More: "cache: {coalesce: true, tool_calls: true}\n",
	})
	warm := min(soakWarmUp, length/2)
	s.load(t, 0, warm, warm, func(time.Duration) {})
	before := s.rest(t, "before")
	rows := []reading{before}
	first := s.made.Load()
	s.load(t, int(warm.Seconds()*soakRate), length, min(30*time.Second, length/4), func(at time.Duration) {
		r := s.read(t, at.String())
		rows = append(rows, r)
		t.Logf("%v: %d requests, %v", at, s.made.Load(), r)
	})
	after := s.rest(t, "after")
	t.Logf("%v after %v of warm-up, clients and upstreams on the same %d CPUs: %d/s mixed, open loop, at most %d at once, and %d slow streams: %d requests\n%s\nwith the warm-up:\n%s",
		length, warm, runtime.NumCPU(), soakRate, s.peak.Load(), soakStreams, s.made.Load()-first, soakTable(append(rows, after)), s.kinds())
	compare(t, before, after)
	checkRSS(t, rows[1:])
	s.checkAnswers(t)
	s.checkLedger(t)
}

// soakLength reads how long the soak takes, or skips it.
func soakLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(soakEnv)
	if text == "" {
		t.Skipf("SKIPPED: a long mixed load was not tried: make soak runs it, or set %s to how long", soakEnv)
	}
	length, err := time.ParseDuration(text)
	if err != nil || length < 10*time.Second {
		t.Fatalf("%s=%q is not a duration of 10s at least", soakEnv, text)
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skipf("SKIPPED: a long mixed load was not tried: files and sockets cannot be counted here: %v", err)
	}
	return length
}

// compare holds the daemon at rest after the load to the one at rest before it.
// That nothing is in flight and no connection is open but idle ones is what rest
// has waited for.
func compare(t *testing.T, before, after reading) {
	t.Helper()
	if after.Goroutines > before.Goroutines+soakSlack {
		t.Errorf("%d goroutines at rest before, %d after", before.Goroutines, after.Goroutines)
	}
	// Idle connections to upstreams are kept on purpose, and are counted.
	if b, a := before.FDs-before.Idle, after.FDs-after.Idle; a > b+soakSlack {
		t.Errorf("%d open files at rest before, %d after", b, a)
	}
	room := soakHeap + 2*max(0, after.Hot-before.Hot) + soakKnown*max(0, after.Known-before.Known)
	if after.Heap > before.Heap+room {
		t.Errorf("%s of heap before, %s after; %s may come on top", mb(before.Heap), mb(after.Heap), mb(room))
	}
	if after.Lost != 0 {
		t.Errorf("%d events were lost", after.Lost)
	}
}

// checkRSS compares the process in the middle of the load with its end.
func checkRSS(t *testing.T, rows []reading) {
	t.Helper()
	mid, end := rows[len(rows)/2], rows[len(rows)-1]
	if room := soakRSS + 2*max(0, end.Hot-mid.Hot); end.RSS > mid.RSS+room {
		t.Errorf("the process takes %s at %s and %s at %s: more than %s on top", mb(mid.RSS), mid.When, mb(end.RSS), end.When, mb(room))
	}
}

func (s *soak) checkAnswers(t *testing.T) {
	t.Helper()
	for i, b := range s.got.bad {
		if i == 20 {
			t.Errorf("and %d faults more", len(s.got.bad)-i)
			break
		}
		t.Error(b)
	}
	for kind := range soakKinds {
		if s.said[kind] == nil {
			t.Errorf("nothing of kind %q was asked", kind)
		}
	}
	repeats := 0
	for _, n := range s.said["hit"] {
		repeats += n
	}
	// The writer may have been behind, and then an answer is not kept.
	if n := s.missed.Load(); int(n)*100 > repeats {
		t.Errorf("%d of %d repeats were not answered from the cache", n, repeats)
	}
	if s.said["slow"]["coalesced"] == 0 {
		t.Error("no slow stream was shared")
	}
}

// checkLedger reads the log line by line: as many calls as requests were made,
// among them that of every answer with a header, and no gap.
func (s *soak) checkLedger(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv(binaryEnv), "export", "--format", "jsonl")
	cmd.Env = environment(s.d.Home, s.d.config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	booked := map[string]bool{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			ID   string      `json:"id"`
			Kind events.Kind `json:"kind"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("export: %v in %.200q", err, lines.Bytes())
		}
		switch {
		case e.Kind == events.KindLedgerGap:
			t.Errorf("the log has a gap: %s", lines.Bytes())
		case e.Kind == events.KindLLMCall && booked[e.ID]:
			t.Errorf("event %s is there twice", e.ID)
		case e.Kind == events.KindLLMCall:
			booked[e.ID] = true
		}
	}
	if err := cmd.Wait(); err != nil || lines.Err() != nil {
		t.Fatalf("export: %v, %v", err, lines.Err())
	}
	if made := s.made.Load(); int64(len(booked)) != made {
		t.Errorf("%d events for %d requests", len(booked), made)
	}
	missing := 0
	for id := range s.got.ids {
		if !booked[id] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d answers have no event", missing, len(s.got.ids))
	}
	t.Logf("%d events for %d requests, %d answers looked up by id", len(booked), s.made.Load(), len(s.got.ids))
}

// kinds says what was asked, and what the cache header said.
func (s *soak) kinds() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, kind := range sortedKeys(s.said) {
		fmt.Fprintf(&b, "%-5s", kind)
		for _, word := range sortedKeys(s.said[kind]) {
			fmt.Fprintf(&b, " %s %d", word, s.said[kind][word])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
