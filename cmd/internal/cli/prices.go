package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/prices"
	"github.com/icyloom/icyloom/gateway/pricing"
)

func (a *app) pricesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prices",
		Short: "Show what models cost, and add to it",
		Long: `The price table is the built-in one with the rows of prices.json in the home
laid over it. Prices are printed in USD per million tokens and kept in whole
nano-USD. A model or kind of token without a price is not known, never free:
calls that used it have no cost, and the console says so.`,
		Example: `  icyloom prices list --model 'claude-*'
  icyloom prices show gpt-5.4 --at 2026-06-01
  icyloom prices import model_prices_and_context_window.json --dry-run`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.pricesList(), a.pricesShow(), a.pricesImport())
	return cmd
}

// prices is the table in force.
func (a *app) prices() (*pricing.Table, error) {
	h, err := a.home()
	if err != nil {
		return nil, err
	}
	return prices.Load(h.Prices())
}

func (a *app) pricesList() *cobra.Command {
	var glob string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the models that have a price, and today's",
		Args:  usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			t, err := a.prices()
			if err != nil {
				return err
			}
			match := globOf(glob)
			entries := slices.DeleteFunc(t.Entries(), func(e pricing.Entry) bool {
				return !match(e.Model) && !slices.ContainsFunc(e.Aliases, match)
			})
			if asJSON {
				return a.printJSON(map[string]any{"version": t.Version(), "unit": pricing.Unit, "models": append([]pricing.Entry{}, entries...)})
			}
			return listPrices(a.stdout, t, entries, time.Now())
		},
	}
	cmd.Flags().StringVar(&glob, "model", "*", "only models with such a name or alias; * stands for any characters, ? for one")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, every row of every model")
	return cmd
}

// globOf matches names in any case of letters.
func globOf(glob string) func(string) bool {
	text := regexp.QuoteMeta(glob)
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\*`, ".*"), `\?`, ".")
	return regexp.MustCompile("(?is)^" + text + "$").MatchString
}

func listPrices(out io.Writer, t *pricing.Table, entries []pricing.Entry, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\tprovider\tinput\tcache read\twrite 5m\twrite 1h\toutput\tfrom\ttiers\n")
	for _, e := range entries {
		_, at, ok := t.Entry(e.Model, now)
		if !ok || at < 0 {
			fmt.Fprintf(w, "%s\t%s\tnot known today\n", e.Model, e.Provider)
			continue
		}
		p := e.Rows[at].Price
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Model, e.Provider, ratesOf(p.Rates), dash(p.From), tiersOf(p.Tiers))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d models, USD per million tokens, table %s\n", len(entries), t.Version())
	return err
}

func ratesOf(r pricing.Rates) string {
	return strings.Join([]string{usdOf(r.Input), usdOf(r.CacheRead), usdOf(r.CacheWrite5m), usdOf(r.CacheWrite1h), usdOf(r.Output)}, "\t")
}

func tiersOf(tiers []pricing.Tier) string {
	var above []string
	for _, t := range tiers {
		above = append(above, fmt.Sprintf("above %d", t.AboveInput))
	}
	return dash(strings.Join(above, ", "))
}

// usdOf writes nano-USD as USD, every digit that counts and no other.
func usdOf(nano *int64) string {
	if nano == nil {
		return "–"
	}
	whole, rest := *nano/1e9, *nano%1e9
	if rest == 0 {
		return strconv.FormatInt(whole, 10)
	}
	return fmt.Sprintf("%d.%s", whole, strings.TrimRight(fmt.Sprintf("%09d", rest), "0"))
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func (a *app) pricesShow() *cobra.Command {
	var day string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Print every price of one model, and which applies",
		Long: `Finds the model as the gateway does: by name or alias, in any case of letters,
behind its provider's prefix, and with the date of a snapshot behind it.

Exit codes: 0 it has a price on that day, 1 it has none, 2 usage.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			at := time.Now()
			if day != "" {
				var err error
				if at, err = time.Parse(time.DateOnly, day); err != nil {
					return usageError{fmt.Errorf("--at %q is no day; write one as 2026-06-01", day)}
				}
			}
			t, err := a.prices()
			if err != nil {
				return err
			}
			return a.showPrices(t, args[0], at, asJSON)
		},
	}
	cmd.Flags().StringVar(&day, "at", "", "the day the call was made, UTC (default: now)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// priceFix is what helps when a model has no price.
const priceFix = "`icyloom prices import FILE` adds prices from the community's list, and `icyloom prices list` shows what is known"

func (a *app) showPrices(t *pricing.Table, name string, at time.Time, asJSON bool) error {
	e, row, ok := t.Entry(name, at)
	if !ok {
		return fmt.Errorf("no price is known for %q: %s", name, priceFix)
	}
	day := at.UTC().Format(time.DateOnly)
	if asJSON {
		said := map[string]any{"asked": name, "at": day, "entry": e, "applies": nil}
		if row < 0 {
			return errors.Join(a.printJSON(said), errSilent)
		}
		said["applies"] = row
		return a.printJSON(said)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\nprovider\t%s\nalso\t%s\nunit\tUSD per million tokens\n\n", e.Model, e.Provider, dash(strings.Join(e.Aliases, ", ")))
	fmt.Fprintf(w, "from\tuntil\tinput\tcache read\twrite 5m\twrite 1h\toutput\t\n")
	for i, p := range e.Rows {
		mark := ""
		if i == row {
			mark = "◀ " + day
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", dash(p.From), dash(p.Until), ratesOf(p.Rates), mark)
		for _, t := range p.Tiers {
			fmt.Fprintf(w, "\tinput above %d\t%s\t\n", t.AboveInput, ratesOf(t.Rates))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if row < 0 {
		_, err := fmt.Fprintf(a.stdout, "\n%s: no price is known: %s\n", day, priceFix)
		return errors.Join(err, errSilent)
	}
	p := e.Rows[row]
	_, err := fmt.Fprintf(a.stdout, "\n%s: %s, as of %s (table %s)\n", day, p.Source, p.AsOf, p.Version)
	return err
}
