package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// reading is what a daemon holds at one moment. Sizes are bytes.
type reading struct {
	When                string
	Goroutines          int64
	FDs, Established    int64 // open files; TCP connections among them
	RSS, Heap           int64 // heap in use; at rest: after a collection
	Hot, Known          int64 // the cache's memory and index
	InFlight, BodyBytes int64
	Flights, Idle       int64 // shared calls and those who follow; idle upstream connections
	Lost                int64 // events
	applied, head       float64
}

func (r reading) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d connections, RSS %s, heap %s, hot %s, %d in flight",
		r.Goroutines, r.FDs, r.Established, mb(r.RSS), mb(r.Heap), mb(r.Hot), r.InFlight)
}

func mb(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// soakTable lays readings out, one a line.
func soakTable(rows []reading) string {
	var b strings.Builder
	b.WriteString("when   goroutines  files  conns  idle     RSS MB  heap MB   hot MB  known  in flight  bodies kB  flights\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "%-6s %10d %6d %6d %5d %10.1f %8.1f %8.1f %6d %10d %10.1f %8d\n", r.When, r.Goroutines, r.FDs, r.Established, r.Idle,
			float64(r.RSS)/1e6, float64(r.Heap)/1e6, float64(r.Hot)/1e6, r.Known, r.InFlight, float64(r.BodyBytes)/1e3, r.Flights)
	}
	b.WriteString("(heap in use: before and after as a collection leaves it, the ballast included; between them with garbage)")
	return b.String()
}

// read asks the daemon and the kernel.
func (s *soak) read(t *testing.T, when string) reading {
	t.Helper()
	var state struct {
		InFlight  int64 `json:"in_flight"`
		BodyBytes int64 `json:"body_bytes"`
		Lost      int64 `json:"events_lost"`
		Upstreams []struct{ Idle int64 }
		Cache     struct {
			HotBytes                  int64 `json:"hot_bytes"`
			Known, Flights, Following int64
		}
	}
	if err := json.Unmarshal([]byte(page(t, s.d.gateway+"/state")), &state); err != nil {
		t.Fatal(err)
	}
	m := metrics(t, page(t, s.d.gateway+"/metrics"))
	r := reading{
		When: when, Goroutines: int64(m["go_goroutines"]), RSS: int64(m["process_resident_memory_bytes"]),
		Heap: int64(m["go_memstats_heap_inuse_bytes"]), Hot: state.Cache.HotBytes, Known: state.Cache.Known,
		InFlight: state.InFlight, BodyBytes: state.BodyBytes, Flights: state.Cache.Flights + state.Cache.Following, Lost: state.Lost,
		applied: m["icyloom_projector_applied_seq"], head: m["icyloom_projector_head_seq"],
	}
	for _, u := range state.Upstreams {
		r.Idle += u.Idle
	}
	r.FDs, r.Established = s.files(t)
	return r
}

// metrics are the values without labels of a scrape.
func metrics(t *testing.T, text string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" || strings.Contains(name, "{") {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("metrics: %q: %v", line, err)
		}
		out[name] = v
	}
	for _, name := range []string{
		"go_goroutines", "process_resident_memory_bytes", "go_memstats_heap_inuse_bytes", "go_memstats_last_gc_time_seconds",
		"icyloom_projector_applied_seq", "icyloom_projector_head_seq",
	} {
		if _, ok := out[name]; !ok {
			t.Fatalf("no %s in /metrics", name)
		}
	}
	return out
}

// files counts the daemon's open files and its TCP connections that stand.
func (s *soak) files(t *testing.T) (open, established int64) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(s.d.cmd.Process.Pid))
	entries, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	standing := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			// sl local remote st queues timer retransmits uid timeout inode
			if f := strings.Fields(line); len(f) > 9 && f[3] == "01" {
				standing["socket:["+f[9]+"]"] = true
			}
		}
	}
	for _, e := range entries {
		name, err := os.Readlink(filepath.Join(proc, "fd", e.Name()))
		if err != nil {
			continue // closed since
		}
		open++
		if standing[name] {
			established++
		}
	}
	return open, established
}

// rest waits until the daemon has nothing to do and holds no connection but idle
// ones to upstreams and the one that asks it. Then it has it collect its
// garbage, and returns what is left. Where something stays, it says so.
func (s *soak) rest(t *testing.T, when string) reading {
	t.Helper()
	s.d.http.CloseIdleConnections()
	r := s.read(t, when)
	for deadline := time.Now().Add(patience); !r.resting(); r = s.read(t, when) {
		if time.Now().After(deadline) {
			t.Errorf("%s: not at rest within %v: %v, %d bytes of bodies, %d shared calls, %d idle connections, %.0f of %.0f events in the tables",
				when, patience, r, r.BodyBytes, r.Flights, r.Idle, r.applied, r.head)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	heap := s.collect(t, when)
	r = s.read(t, when)
	r.Heap = heap
	return r
}

// resting: one connection asks, another one may be closing.
func (r reading) resting() bool {
	return r.InFlight == 0 && r.BodyBytes == 0 && r.Flights == 0 && r.Established <= r.Idle+2 && r.applied == r.head
}

// collect returns the heap in use after two collections, the second of which
// frees what pools held. Nobody can ask for one: scrapes are garbage enough.
func (s *soak) collect(t *testing.T, when string) int64 {
	t.Helper()
	var least, last float64
	runs := -1 // the first scrape only says when the latest one was
	for deadline := time.Now().Add(2 * patience); ; {
		m := metrics(t, page(t, s.d.gateway+"/metrics"))
		heap, at := m["go_memstats_heap_inuse_bytes"], m["go_memstats_last_gc_time_seconds"]
		if at != last {
			last = at
			runs++
		}
		switch {
		case runs == 3:
			return int64(least)
		case time.Now().After(deadline):
			t.Fatalf("%s: the collector ran %d times within %v", when, runs, 2*patience)
		case runs == 2 && (least == 0 || heap < least):
			least = heap // the sweeper is at work
		}
	}
}
