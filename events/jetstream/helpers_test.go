package jetstream_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func tick() <-chan time.Time { return time.After(time.Millisecond) }

// listening counts this process' listening TCP sockets.
func listening(t *testing.T) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("SKIPPED: a broker that listens nowhere was not tried: sockets are counted in /proc, which is not here")
	}
	mine := make(map[string]bool)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			mine[to] = true
		}
	}
	n := 0
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] == "0A" && mine["socket:["+fields[9]+"]"] {
				n++
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return n
}
