package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// run runs one command line in this process.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, strings.NewReader(""), &out, &errs, env)
	return code, out.String(), errs.String()
}

// commandLines are the words that name each command of a tree, the tree's own
// commands before theirs.
func commandLines(cmd *cobra.Command, before ...string) [][]string {
	var all [][]string
	for _, sub := range cmd.Commands() {
		line := append(slices.Clone(before), sub.Name())
		all = append(all, line)
		all = append(all, commandLines(sub, line...)...)
	}
	return all
}

// TestEveryCommandHelps holds each command, and each command of a command, to an
// example in its help or in that of the command it belongs to, and to exit code 2
// for a flag that does not exist.
func TestEveryCommandHelps(t *testing.T) {
	env := []string{"ICYLOOM_HOME=" + t.TempDir()}
	all := commandLines((&app{}).root())
	for _, one := range []string{"serve", "prices", "prices import", "cache shadow", "config schema"} {
		if !slices.ContainsFunc(all, func(line []string) bool { return strings.Join(line, " ") == one }) {
			t.Errorf("%s is not looked at", one)
		}
	}
	for _, line := range all {
		t.Run(strings.Join(line, " "), func(t *testing.T) {
			code, stdout, stderr := run(t, env, append(slices.Clone(line), "--help")...)
			_, above, _ := run(t, env, append(slices.Clone(line[:len(line)-1]), "--help")...)
			shown := strings.Contains(stdout, "Examples:") || strings.Contains(above, "\n  icyloom "+strings.Join(line, " ")+" ")
			if code != 0 || !shown || !strings.Contains(stdout, "Usage:") || stderr != "" {
				t.Errorf("--help: %d\n%s%s", code, stdout, stderr)
			}
			code, stdout, stderr = run(t, env, append(slices.Clone(line), "--no-such-flag")...)
			if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("an unknown flag: %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}
