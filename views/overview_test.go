package views

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/icyloom/icyloom/projections"
)

// page gets a page and reads it.
func page(t testing.TB, c *Console, url string, status int) *goquery.Document {
	t.Helper()
	w := get(t, c, url)
	if w.Code != status {
		t.Fatalf("%s: status %d, want %d: %s", url, w.Code, status, w.Body)
	}
	doc, err := goquery.NewDocumentFromReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// words reads what an element says, each text of it parted from the next.
func words(s *goquery.Selection) string {
	var all []string
	s.Contents().Each(func(_ int, n *goquery.Selection) {
		if goquery.NodeName(n) == "#text" {
			all = append(all, strings.Fields(n.Text())...)
		} else if w := words(n); w != "" {
			all = append(all, w)
		}
	})
	return strings.Join(all, " ")
}

// rows reads a table's body as its cells' words.
func rows(s *goquery.Selection) [][]string {
	var all [][]string
	s.Find("tbody tr").Each(func(_ int, tr *goquery.Selection) {
		var row []string
		tr.Find("th, td").Each(func(_ int, cell *goquery.Selection) { row = append(row, words(cell)) })
		all = append(all, row)
	})
	return all
}

// whole reads a grouped number back.
func whole(t testing.TB, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
	if err != nil {
		t.Fatalf("not a number: %q", s)
	}
	return n
}

func TestKeyFigures(t *testing.T) {
	t.Parallel()
	doc := page(t, newConsole(t, newSource()), "/?window=24h", 200)
	for id, want := range map[string]string{
		"kpi-calls":     "Calls 2,483 31 errors 1 h 21 min of waiting spared",
		"kpi-hits":      "Hit rate 46.3 % 1,021 of 2,207 cacheable calls",
		"kpi-tokens":    "Tokens avoided 3.90 M beside 5,417,903 tokens paid exactly 3,902,116",
		"kpi-gain":      "Gain 41.9 % 3,902,116 of 9,320,019 tokens; the mark is the 35 % target",
		"kpi-money":     "Money saved $14.21 beside $21.84 paid (USD) without 17 unpriced calls",
		"ratio-gain":    "Gain 41.9 % 3,902,116 of 9,320,019 tokens, reported and replayed only; target 35 %",
		"shadow-icy":    "What icy would hit 6.2 % 73 of 1,186 misses, estimated from the 611 it was tried on; it would have spared about 144 k tokens and $0.4301",
		"ratio-counted": "Counted ratio 45.5 % 4,515,668 of 9,933,571 tokens, with counted ones added; never mixed into Gain",
		"db-applied":    "Applied event 18,204 of 18,206",
		"db-lag":        "Waiting 2 events, the oldest for 31.0 ms",
	} {
		if got := words(doc.Find("#" + id)); got != want {
			t.Errorf("#%s says\n%q, want\n%q", id, got, want)
		}
	}
	for id, want := range map[string]string{"kpi-calls": "2483", "kpi-tokens": "3902116", "kpi-money": "14206311500"} {
		if got := doc.Find("#"+id+" data").AttrOr("value", ""); got != want {
			t.Errorf("#%s holds %s, want %s", id, got, want)
		}
	}
}

func TestTablesEqualTheDashboard(t *testing.T) {
	t.Parallel()
	for _, w := range windows {
		d := busy(w)
		doc := page(t, newConsole(t, newSource()), "/dashboard?window="+string(w), 200)
		check := func(id string, want [][]int64, columns ...int) {
			t.Helper()
			got := rows(doc.Find("#" + id))
			if len(got) != len(want) {
				t.Fatalf("%s #%s has %d rows, want %d", w, id, len(got), len(want))
			}
			for i, row := range want {
				for k, v := range row {
					if n := whole(t, got[i][columns[k]]); n != v {
						t.Errorf("%s #%s row %d column %d says %d, want %d", w, id, i, columns[k], n, v)
					}
				}
			}
		}
		var calls, latency, registry, outcomes, models, upstreams, tables [][]int64
		for _, b := range d.Series.Buckets {
			calls = append(calls, []int64{b.Calls, b.Hits, b.Misses, b.Bypasses, b.Errors, b.Closed, b.TokensPaid, b.TokensSaved})
			latency = append(latency, []int64{b.Latency.Count})
		}
		check("calls-table", calls, 1, 2, 3, 4, 5, 6, 7, 8)
		check("latency-table", latency, 1)
		for _, r := range d.Registry.Rows {
			registry = append(registry, []int64{r.Entries, r.TokensPaid, r.TokensSaved, r.TokensTax})
		}
		check("registry", registry, 2, 3, 4, 5)
		for _, s := range d.Breakdown.Outcomes {
			outcomes = append(outcomes, []int64{s.Calls})
		}
		check("outcomes", outcomes, 1)
		for _, s := range d.Breakdown.Models {
			models = append(models, []int64{s.Calls, s.TokensPaid, s.TokensSaved})
		}
		check("models", models, 1, 5, 6)
		for _, s := range d.Breakdown.Upstreams {
			upstreams = append(upstreams, []int64{s.Calls})
		}
		check("upstreams", upstreams, 1)
		for _, r := range d.Tables {
			tables = append(tables, []int64{r.Rows})
		}
		check("db-tables", tables, 1)
	}
}

func TestWordsOfTables(t *testing.T) {
	t.Parallel()
	doc := page(t, newConsole(t, newSource()), "/", 200)
	for _, c := range []struct {
		id   string
		row  int
		want string
	}{
		{"registry", 1, "LLM cache|replayed|1,012|0|3,902,116|0|$0|$14.21"},
		{"registry", 3, "interception|counted|41|0|613,552|0|$0|$0"},
		{"outcomes", 5, "client closed|14|0.6 %"},
		{"models", 0, "claude-sonnet-4-5-20250929|1,201|48.4 %|53.1 %|611 of 1,150|3,800,111|2,411,902|$17.31|1.11 s|21.0 s"},
		{"models", 4, "unknown|17|0.7 %|–|0 of 0|0|0|$0|1.10 s|21.0 s"},
		{"upstreams", 1, "openai|1,155|46.5 %|39.2 %|1.11 s|$4.53"},
		{"recent", 1, "18,203|Nov 30 20:53:48|miss|openai-python|gpt-4o-mini|openai|6,731|–|$0.0544|–|433 ms|messages differ at 7"},
		{"recent", 10, "18,194|Nov 30 20:48:15|body.evicted|–|–|–|–|–|–|–|–|–"},
	} {
		if got := strings.Join(rows(doc.Find("#" + c.id))[c.row], "|"); got != c.want {
			t.Errorf("#%s row %d says\n%s, want\n%s", c.id, c.row, got, c.want)
		}
	}
	circuits := words(doc.Find(".circuits"))
	for _, want := range []string{"closed anthropic calls pass · 2 in flight · last status 200", "half open openai one call probes · last status 503 last failure: upstream status, Nov 30 20:51:07 UTC", "open ollama calls are kept away last failure: connect"} {
		if !strings.Contains(circuits, want) {
			t.Errorf("circuits say %q, want %q in it", circuits, want)
		}
	}
}

// TestConditions holds what the page says about its own numbers.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		edit  func(*projections.Dashboard)
		where string
		want  string
	}{
		{"live", func(*projections.Dashboard) {}, ".status.ok", "All is well Every call is an event"},
		{"stalled", func(d *projections.Dashboard) { d.DB.State, d.DB.Error = "stalled", "disk I/O error" }, ".status.bad", "The tables have stalled Numbers stand still at event 18,204: disk I/O error."},
		{"stalled mutely", func(d *projections.Dashboard) { d.DB.State = "stalled" }, ".status.bad", "no reason was given"},
		{"catching up", func(d *projections.Dashboard) { d.DB.State = "catching_up" }, ".status.busy", "Catching up Event 18,204 of 18,206"},
		{"rebuilding", func(d *projections.Dashboard) { d.DB.State = "rebuilding" }, ".status.busy", "Rebuilding"},
		{"unheard of", func(d *projections.Dashboard) { d.DB.State = "" }, ".status.busy", "State of the tables: unknown"},
		{"unpriced", func(*projections.Dashboard) {}, ".warnings", "17 unpriced calls. No price is known for llama3.1:8b-instruct-q4_K_M (14), a model that is not known (3), or for"},
		{"unpriced, the fix", func(*projections.Dashboard) {}, ".warnings", "`icyloom prices import FILE` adds prices."},
		{"unpriced, many", func(d *projections.Dashboard) {
			d.Breakdown.Models = nil
			for i := range 7 {
				d.Breakdown.Models = append(d.Breakdown.Models, projections.Share{Name: "m" + string(rune('0'+i)), Unpriced: int64(i + 1)})
			}
		}, ".warnings", "m6 (7), m5 (6), m4 (5), m3 (4), m2 (3), 2 other models, or"},
		{"estimated", func(*projections.Dashboard) {}, ".warnings", "9 calls without reported usage."},
		{"gaps", func(d *projections.Dashboard) { d.KPI.Gaps = 1 }, ".warnings", "1 fact lost."},
		{"ahead", func(d *projections.Dashboard) { d.DB.Head = 7 }, ".warnings", "The tables are ahead of the log."},
		{"nothing waits", func(d *projections.Dashboard) { d.DB.Head = 7 }, "#db-lag", "nothing waits"},
		{"lag in the future", func(d *projections.Dashboard) { d.DB.LagUS = -5_000_000 }, "#db-lag", "2 events, the oldest for 0 µs"},
		{"notice", func(d *projections.Dashboard) { d.DB.Notice = "rebuilt: the file was corrupt" }, ".warnings", "rebuilt: the file was corrupt"},
		{"empty", func(d *projections.Dashboard) { *d = projections.Dashboard{DB: projections.DB{State: "live"}} }, "#first", "OPENAI_BASE_URL=http://127.0.0.1:8150/v1"},
		{"empty gain", func(d *projections.Dashboard) { *d = projections.Dashboard{} }, "#kpi-gain", "Gain – 0 of 0 tokens"},
	} {
		s := newSource()
		s.change(c.edit)
		if got := words(page(t, newConsole(t, s), "/", 200).Find(c.where)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s says %q, want %q in it", c.name, c.where, got, c.want)
		}
	}
}

func TestDegradedIsRed(t *testing.T) {
	t.Parallel()
	c := newConsole(t, newSource(), func(o *Options) {
		o.Health = func() (bool, string) { return false, "the disk is full, 12 facts wait in the spool" }
	})
	doc := page(t, c, "/", 200)
	if got := words(doc.Find(".status.bad")); !strings.Contains(got, "the disk is full, 12 facts wait in the spool") {
		t.Errorf("the status says %q", got)
	}
}

func TestUnreadableNumbersAreSaidNotShown(t *testing.T) {
	t.Parallel()
	s := newSource()
	s.fail(errors.New("open icyloom.db: permission denied"))
	doc := page(t, newConsole(t, s), "/", 503)
	if got := words(doc.Find(".status.bad")); !strings.Contains(got, "permission denied") {
		t.Errorf("the status says %q", got)
	}
	if doc.Find(".kpi, table").Length() != 0 {
		t.Error("numbers are shown although there are none")
	}
}

// TestHugeAndOdd draws what should not be, and what a page must survive.
func TestHugeAndOdd(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	s := newSource()
	s.change(func(d *projections.Dashboard) {
		d.KPI = projections.KPI{Calls: most, TokensPaid: most, TokensSaved: -most, CostPaidNanoUSD: most, CostSavedNanoUSD: -most, HitRate: projections.Ratio{Num: 1, Den: 1, Value: ref(1e300)}, Gain: projections.Ratio{Value: ref(-1e300)}, Target: 7}
		for i := range d.Series.Buckets {
			d.Series.Buckets[i] = projections.Bucket{Start: clock, Calls: most, Hits: most / 8, Misses: most / 8, Errors: -most, Latency: projections.Quantiles{Count: 1, P50US: ref(int64(-4)), P99US: ref(int64(most))}}
		}
		d.Breakdown.Outcomes = []projections.Share{{Name: "hit", Calls: most, Of: projections.Ratio{Value: ref(3.0)}}, {Name: "miss", Calls: most, Of: projections.Ratio{Value: ref(-1.0)}}}
		d.Registry.Rows = append(d.Registry.Rows, projections.RegistryRow{TokensPaid: most})
		d.Recent = append(d.Recent, projections.Recent{Seq: math.MaxUint64, Outcome: "new"})
		d.DB = projections.DB{Head: math.MaxUint64, LagUS: most}
	})
	w := get(t, newConsole(t, s), "/")
	if w.Code != 200 {
		t.Fatal(w.Code)
	}
	doc, err := goquery.NewDocumentFromReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc.Find("path").Each(func(_ int, p *goquery.Selection) {
		if d := p.AttrOr("d", ""); strings.ContainsAny(d, "NaIfe+") {
			t.Errorf("a path is not made of numbers: %.80s", d)
		}
	})
}

func TestForeignWordsAreEscaped(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>` + "\r\ndata: x\n\n<img src=x onerror=y>"
	s := newSource()
	s.change(func(d *projections.Dashboard) {
		for _, shares := range [][]projections.Share{d.Breakdown.Models, d.Breakdown.Upstreams, d.Breakdown.Outcomes} {
			for i := range shares {
				shares[i].Name = evil
			}
		}
		d.Recent = []projections.Recent{{Kind: evil}, {Client: evil, Model: evil, Upstream: evil, Outcome: evil, Why: evil}}
		d.Registry.Rows = []projections.RegistryRow{{Source: evil, Basis: evil}}
		d.Tables, d.Config = []projections.Table{{Name: evil}}, []projections.Setting{{Name: evil, Value: evil}}
		d.DB.State, d.DB.Error, d.DB.Notice = evil, evil, evil
	})
	c := newConsole(t, s, func(o *Options) {
		o.Version, o.GatewayURL = evil, evil
		o.Health = func() (bool, string) { return false, evil }
	})
	doc := page(t, c, "/", 200)
	if n := doc.Find("script:not([src]), img:not(.brand img), [onerror]").Length(); n != 0 {
		t.Errorf("%d foreign elements are in the page", n)
	}
	if n := doc.Find("[style], style, [onclick]").Length(); n != 0 {
		t.Errorf("%d inline styles or handlers are in the page", n)
	}
	for _, url := range []string{"/?window=<script>", "/?theme=<script>"} {
		w := get(t, c, url)
		if w.Code != 400 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s", url, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

func TestPageIsSound(t *testing.T) {
	t.Parallel()
	doc := page(t, newConsole(t, newSource()), "/?window=7d&theme=dark", 200)
	ids := map[string]bool{}
	doc.Find("[id]").Each(func(_ int, s *goquery.Selection) {
		id := s.AttrOr("id", "")
		if ids[id] {
			t.Errorf("id %q is there twice", id)
		}
		ids[id] = true
	})
	if doc.Find("h1").Length() != 1 || doc.Find("html").AttrOr("data-theme", "") != "dark" {
		t.Error("one h1 and the chosen theme should be there")
	}
	doc.Find("table").Each(func(_ int, s *goquery.Selection) {
		if s.Find("caption").Length() != 1 || s.Find("th[scope=row]").Length() == 0 {
			t.Errorf("a table has no caption or no row headings: %.60s", words(s))
		}
	})
	doc.Find("svg").Each(func(_ int, s *goquery.Selection) {
		if s.AttrOr("aria-hidden", "") != "true" && s.AttrOr("aria-label", "") == "" {
			t.Error("a chart has no label")
		}
	})
	doc.Find("a[href^='/']").Each(func(_ int, s *goquery.Selection) {
		w := get(t, newConsole(t, newSource()), s.AttrOr("href", ""))
		if w.Code != 200 {
			t.Errorf("a dead link: %s", s.AttrOr("href", ""))
		}
		if strings.HasPrefix(s.AttrOr("href", ""), "/?") && !s.Is(".themes a") && !strings.Contains(s.AttrOr("href", ""), "theme=dark") {
			t.Errorf("a link forgets the theme: %s", s.AttrOr("href", ""))
		}
	})
	if href := doc.Find("a[download]").AttrOr("href", ""); href != "/api/dashboard?window=7d" {
		t.Errorf("Export loads %s", href)
	}
}

func TestSameNumbersSameBytes(t *testing.T) {
	t.Parallel()
	a, b := get(t, newConsole(t, newSource()), "/?window=1h"), get(t, newConsole(t, newSource()), "/?window=1h")
	if a.Body.String() != b.Body.String() {
		t.Error("two drawings of the same numbers differ")
	}
}

func BenchmarkOverview(b *testing.B) {
	for _, w := range windows {
		b.Run(string(w), func(b *testing.B) {
			c := newConsole(b, newSource())
			size := get(b, c, "/?window="+string(w)).Body.Len()
			b.ReportAllocs()
			start := time.Now()
			for b.Loop() {
				get(b, c, "/?window="+string(w))
			}
			b.ReportMetric(float64(size), "bytes")
			b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N), "µs/page")
		})
	}
}
