package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/prices"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// maxPriceFile is far above the community's list (1.6 MB).
const maxPriceFile = 64 << 20

func (a *app) pricesImport() *cobra.Command {
	var o prices.ImportOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Add prices from the community's list",
		Long: `Reads a file in the shape of LiteLLM's model_prices_and_context_window.json and
writes its prices into prices.json in the home. They take effect from today on,
UTC, when the daemon is next started; what was priced before stays as it is.

An imported price replaces the built-in one of the same name; what the file does
not say of a model, a bucket or the tiers, stays as it is known; tiers that it
does say replace all of the model's. Kept prices of a tier that no longer go with
the new ones are shown, to be looked at. --only-missing leaves models alone that
have a price. A later built-in row replaces an imported one. Models that are not
priced by the token, or whose prices are all 0, are left out and counted. A file
with a fault changes nothing.

Exit codes: 0 read, 1 the file or the home's table is at fault, 2 usage.`,
		Example: `  icyloom prices import model_prices_and_context_window.json --dry-run
  icyloom prices import --only-missing model_prices_and_context_window.json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.home()
			if err != nil {
				return err
			}
			raw, err := readAtMost(args[0], maxPriceFile)
			if err != nil {
				return err
			}
			o.Path, o.Now, o.Source = h.Prices(), time.Now(), "imported from "+filepath.Base(args[0])
			r, err := prices.Import(raw, o)
			if faults := (prices.Faults{}); asJSON && errors.As(err, &faults) {
				return errors.Join(a.printJSON(map[string]any{"faults": faults}), errSilent)
			}
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", args[0], err)
			case asJSON:
				return a.printJSON(r)
			}
			return printImport(a.stdout, r, o)
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would change and write nothing")
	cmd.Flags().BoolVar(&o.OnlyMissing, "only-missing", false, "take only models that have no price")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readAtMost reads a file that is not larger than limit bytes.
func readAtMost(path string, limit int64) (raw []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s is larger than %d MiB, which no list of prices is", path, limit>>20)
	}
	return raw, err
}

// maxChanges is how many names of a kind are printed; --json has all.
const maxChanges = 40

func printImport(out io.Writer, r prices.Report, o prices.ImportOptions) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, part := range []struct {
		what    string
		changes []prices.Change
	}{{"new", r.New}, {"changed", r.Changed}} {
		for _, c := range part.changes[:min(len(part.changes), maxChanges)] {
			now, before := wasNow(c.Before, &c.After)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", part.what, printable(c.Model), now, before)
			printTiers(w, c)
		}
		if more := len(part.changes) - maxChanges; more > 0 {
			fmt.Fprintf(w, "%s\tand %d more; --json lists all\n", part.what, more)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(w, "left out\t%d\t%s\n", r.Skipped[reason], printable(reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d new, %d changed, %d the same, %d kept (USD per million tokens)\n", len(r.New), len(r.Changed), r.Same, r.Kept)
	if r.Rounded > 0 {
		fmt.Fprintf(out, "%d figures were finer than a nano-USD per million tokens and were rounded half up\n", r.Rounded)
	}
	_, err := fmt.Fprintln(out, fate(r, o))
	return err
}

// printTiers writes a line for each tier that a model has or had, and one for
// each price of them to look at.
func printTiers(w io.Writer, c prices.Change) {
	before, after := byInput(c.TiersBefore), byInput(c.TiersAfter)
	both := maps.Clone(before)
	maps.Copy(both, after)
	for _, input := range slices.Sorted(maps.Keys(both)) {
		now, was := wasNow(before[input], after[input])
		fmt.Fprintf(w, "\t  above %d\t%s\t%s\n", input, now, was)
	}
	for _, o := range c.Odd {
		than := "not known there"
		if o.Price != nil {
			than = usdOf(o.Price) + " there, as before, which is less"
		}
		fmt.Fprintf(w, "\t  look at\t%s above %d: %s, and %s below\n", strings.ReplaceAll(o.Bucket, "_", " "), o.AboveInput, than, usdOf(&o.Usual))
	}
}

func byInput(tiers []pricing.Tier) map[int64]*pricing.Rates {
	out := map[int64]*pricing.Rates{}
	for i, t := range tiers {
		out[t.AboveInput] = &tiers[i].Rates
	}
	return out
}

// wasNow writes prices and those before them: input and output, and of the others
// what has changed. Either may be nil, where there is none.
func wasNow(before, after *pricing.Rates) (now, was string) {
	var b, a [5]*int64
	if before != nil {
		b = before.Buckets()
	}
	if after != nil {
		a = after.Buckets()
	}
	var olds, news []string
	same := before != nil && after != nil
	for i, name := range [5]string{"in", "cache read", "write 5m", "write 1h", "out"} {
		changed := usdOf(a[i]) != usdOf(b[i])
		same = same && !changed
		if name == "in" || name == "out" || before != nil && after != nil && changed {
			olds, news = append(olds, usdOf(b[i])+" "+name), append(news, usdOf(a[i])+" "+name)
		}
	}
	now, was = strings.Join(news, ", "), "was "+strings.Join(olds, ", ")
	switch {
	case same:
		was = "as before"
	case before == nil:
		was = ""
	case after == nil:
		now = "as below it"
	}
	return now, was
}

// fate says what became of the import.
func fate(r prices.Report, o prices.ImportOptions) string {
	switch {
	case r.Written:
		return fmt.Sprintf("%s is written; table %s is in force when icyloom is next started", o.Path, r.Version)
	case len(r.New)+len(r.Changed) == 0:
		return fmt.Sprintf("nothing to write; table %s stays", r.Version)
	}
	return fmt.Sprintf("nothing was written (--dry-run); it would be table %s", r.Version)
}
