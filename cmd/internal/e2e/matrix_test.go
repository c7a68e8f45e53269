package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/icyloom/icyloom/events"
)

// TestReplayMatrix shows the recordings that the project ships to the clients.
func TestReplayMatrix(t *testing.T) {
	internal := filepath.Join("..", "..", "..", "gateway", "internal")
	rows := loadRows(t, filepath.Join(internal, "openai", "testdata"))
	rows = append(rows, loadRows(t, filepath.Join(internal, "anthropic", "testdata"))...)
	m := showAll(t, rows, setup{})
	for _, api := range threeAPIs {
		for _, client := range matrixClients {
			for _, first := range []form{asJSON, asSSE} {
				if n := m[cell{api, first, !first, client}]; n.accepted == 0 {
					t.Errorf("no %s recording was shown to %s as %v after %v", api, client, !first, first)
				}
			}
		}
	}
}

// TestReplayMatrixFolder shows the clients the recordings of the user's folder.
func TestReplayMatrixFolder(t *testing.T) {
	dir := os.Getenv("ICYLOOM_RECORDINGS")
	if dir == "" {
		t.Skip("SKIPPED: showing recordings other than the shipped ones to the clients was not tried: set ICYLOOM_RECORDINGS to a folder of them")
	}
	showAll(t, loadRows(t, dir), setup{})
}

// matrixClients are the clients that every recording is shown to.
var matrixClients = []string{"sdk", "vercel"}

// cell is a place in the matrix: an API, the form that was recorded and the one
// that was asked for, and the client that took the answer.
type cell struct {
	api         events.API
	first, then form
	client      string
}

// tally counts the answers of a cell.
type tally struct{ accepted, refused, refusedDirect int }

// showing is one recording as one client took it: from the upstream itself,
// through the gateway, repeated in the same form, and in the other one.
type showing struct {
	row
	client                    string
	direct, miss, same, other seen
	faults                    []string
}

// showAll shows every recording that can be repeated to every client, holds what
// they made of it against what they make of it without the gateway, and returns
// and logs the matrix of counts. s may have further settings of the daemon.
func showAll(t *testing.T, rows []row, s setup) map[cell]tally {
	total := len(rows)
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.verdict() == mustNotHit })
	node := drive(t)
	stage := newStage(t, rows)
	s.OpenAI, s.Anthropic = stage.URL, stage.URL
	d := start(t, s)
	all := make([]showing, 0, len(rows)*len(matrixClients))
	var group errgroup.Group
	group.SetLimit(8)
	for i, r := range rows {
		for _, client := range matrixClients {
			all = append(all, showing{row: r, client: client})
			show := &all[len(all)-1]
			group.Go(func() error { return show.play(t.Context(), node, stage.URL, d.gateway, i) })
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	matrix := map[cell]tally{}
	for i := range all {
		all[i].judge(matrix)
		if all[i].direct.Error != "" {
			t.Logf("%s (%s, %v): %s takes it from nobody: %.300s", all[i].Name, all[i].api, all[i].form(), all[i].client, all[i].direct.Error)
		}
		for _, f := range all[i].faults {
			t.Errorf("%s (%s, %v) through %s: %s", all[i].Name, all[i].api, all[i].form(), all[i].client, f)
		}
	}
	t.Logf("%d of %d recordings may be repeated:\n%s", len(rows), total, table(matrix))
	return matrix
}

// play has the client ask four times.
func (s *showing) play(ctx context.Context, node *driver, upstream, gateway string, i int) (err error) {
	ask := func(base string, f form, into *seen) {
		if err == nil {
			*into, err = node.ask(ctx, s.job(base, f, i))
		}
	}
	ask(upstream, s.form(), &s.direct)
	ask(gateway, s.form(), &s.miss)
	ask(gateway, s.form(), &s.same)
	if s.verdict() == mustHit || s.same.Cache == "hit" {
		ask(gateway, !s.form(), &s.other)
	}
	return err
}

// job is the client's request for the recording in a form. The SDKs take the
// recorded request; Vercel's makes its own.
func (s *showing) job(base string, f form, i int) job {
	j := job{
		Client: s.client, API: s.api, Base: base, Stream: f == asSSE,
		Key: rowKey + strconv.Itoa(i) + "." + s.client,
	}
	if s.client == "vercel" {
		model := meaningOf(s.api, []byte(s.Body)).Model
		if model == "" {
			model = "some-model"
		}
		j.Request = object{"model": model, "prompt": "recorded: " + s.Name}
		return j
	}
	request := decode(s.Request)
	delete(request, "stream") // the SDK sets it
	delete(request, "stream_options")
	if s.api == events.APIChat && f == asSSE {
		request["stream_options"] = object{"include_usage": true}
	}
	j.Request = request
	return j
}

// judge holds the client's four results against each other and counts them.
func (s *showing) judge(matrix map[cell]tally) {
	if s.verdict() != mustHit && s.same.Cache != "hit" {
		return // need not be repeated, and was not
	}
	if s.miss.Cache != "miss" || s.same.Cache != "hit" || s.other.Cache != "hit" {
		s.fault("cache said %q, %q, %q; want miss, hit, hit", s.miss.Cache, s.same.Cache, s.other.Cache)
	}
	if s.miss.Error != s.direct.Error {
		s.fault("the client refused what it took directly, or not as it did: %q, directly %q", s.miss.Error, s.direct.Error)
	}
	s.count(matrix, s.form(), s.same)
	s.count(matrix, !s.form(), s.other)
	if s.direct.Error != "" {
		return // there is nothing to compare with
	}
	want := s.said(s.direct.Object)
	if diff := cmp.Diff(want, s.said(s.miss.Object)); diff != "" {
		s.fault("the gateway's answer says something else (-direct +gateway):\n%s", diff)
	}
	if s.same.Error == "" {
		if diff := cmp.Diff(plain(s.miss.Object), plain(s.same.Object)); diff != "" {
			s.fault("the repeat differs (-miss +hit):\n%s", diff)
		}
	}
	if s.other.Error == "" && !s.incomparable() {
		other := s.said(s.other.Object)
		s.lost(want, other)
		if diff := cmp.Diff(want, other); diff != "" {
			s.fault("the repeat as %v says something else (-%v +%v):\n%s", !s.form(), s.form(), !s.form(), diff)
		}
	}
}

func (s *showing) fault(format string, a ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, a...))
}

// count enters a repeat into the matrix. To be refused is a fault where the
// client takes the recording itself.
func (s *showing) count(matrix map[cell]tally, then form, got seen) {
	at := cell{s.api, s.form(), then, s.client}
	n := matrix[at]
	switch {
	case got.Error == "":
		n.accepted++
	case s.direct.Error != "":
		n.refusedDirect++
	default:
		n.refused++
		s.fault("the client refused the repeat as %v: %s", then, got.Error)
	}
	matrix[at] = n
}

// table shows the matrix.
func table(matrix map[cell]tally) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "API\tfirst → repeat\tclient\taccepted\trefused\trefused directly too")
	order := func(a, b cell) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	for _, at := range slices.SortedFunc(maps.Keys(matrix), order) {
		n := matrix[at]
		fmt.Fprintf(w, "%s\t%v → %v\t%s\t%d\t%d\t%d\n", at.api, at.first, at.then, at.client, n.accepted, n.refused, n.refusedDirect)
	}
	_ = w.Flush() // into memory
	return out.String()
}
