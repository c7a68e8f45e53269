// Package control is how a command speaks to the daemon that holds its home:
// HTTP over a Unix socket in the home, readable by the owner only.
//
// Whoever can open the socket is the home's owner, so nothing further is asked
// but the protocol's version. Answers that take a while (replay) are lines of
// JSON: progress, then one result or one error.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/projections"
)

// Protocol is the version of what is spoken over the socket.
const Protocol = 1

// protocolHeader carries the asker's Protocol.
const protocolHeader = "Icyloom-Control"

// ErrNoDaemon: nobody listens on the socket.
var ErrNoDaemon = errors.New("no daemon runs in this home")

// Hello is what a daemon says of itself.
type Hello struct {
	Protocol   int       `json:"protocol"`
	Version    string    `json:"version"`
	ConfigHash string    `json:"config_hash"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	// Gateway and Console are the URLs it serves, "" for a part that is off.
	Gateway string `json:"gateway,omitempty"`
	Console string `json:"console,omitempty"`
}

// Check is one line of a diagnosis.
type Check struct {
	Name string `json:"name"`
	// Status is ok, warn or fail.
	Status string `json:"status"`
	Text   string `json:"text"`
	// Fix says what to do about a warn or fail.
	Fix string `json:"fix,omitempty"`
}

// Service is what a daemon answers.
type Service struct {
	Hello     func() Hello
	Checks    func(ctx context.Context) []Check
	Dashboard func(ctx context.Context, window projections.Window) (projections.Dashboard, error)
	Replay    func(ctx context.Context, r audit.ReplayRequest, progress func(projections.Progress)) (audit.ReplayReport, error)
	Export    func(ctx context.Context, w io.Writer, o audit.ExportOptions) (audit.Exported, error)
	Cache     admin.Ops
}

// exportRequest is the body of POST /export.
type exportRequest struct {
	Format string      `json:"format"`
	From   audit.Point `json:"from"`
	To     audit.Point `json:"to"`
}

// line is one line of an answer that takes a while.
type line struct {
	Progress *projections.Progress `json:"progress,omitempty"`
	Step     *admin.Progress       `json:"step,omitempty"` // the same, of the cache's care
	Error    string                `json:"error,omitempty"`
	// Usage is set with an Error that is a question which cannot be meant.
	Usage  bool            `json:"usage,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// mismatch is the one sentence for two programs that do not understand another.
func mismatch(daemon, client int) error {
	return fmt.Errorf("the daemon of this home speaks control protocol %d and this program %d; restart the daemon with this program's version", daemon, client)
}
