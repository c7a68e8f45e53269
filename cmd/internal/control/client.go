package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/projections"
)

// Client asks one home's daemon.
type Client struct {
	http *http.Client
	// Hello is what the daemon said when it was dialled.
	Hello Hello
}

// Dial finds the daemon at a socket, or returns ErrNoDaemon.
func Dial(ctx context.Context, path string) (*Client, error) {
	c := &Client{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}}
	err := c.get(ctx, "/hello", &c.Hello)
	if opErr := (*net.OpError)(nil); errors.As(err, &opErr) && opErr.Op == "dial" {
		return nil, ErrNoDaemon
	}
	if err != nil {
		return nil, err
	}
	if c.Hello.Protocol != Protocol {
		return nil, mismatch(c.Hello.Protocol, Protocol)
	}
	return c, nil
}

// Close lets go of the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Checks diagnoses what only the daemon can see.
func (c *Client) Checks(ctx context.Context) ([]Check, error) {
	var out []Check
	return out, c.get(ctx, "/checks", &out)
}

// Dashboard answers what a page shows.
func (c *Client) Dashboard(ctx context.Context, window projections.Window) (projections.Dashboard, error) {
	var d projections.Dashboard
	return d, c.get(ctx, "/dashboard?window="+url.QueryEscape(string(window)), &d)
}

// Replay has the daemon fold its log again, and repair its tables if r says so.
func (c *Client) Replay(ctx context.Context, r audit.ReplayRequest, progress func(projections.Progress)) (audit.ReplayReport, error) {
	res, err := c.do(ctx, "POST", "/replay", r)
	if err != nil {
		return audit.ReplayReport{}, err
	}
	defer func() { _ = res.Body.Close() }()
	for dec := json.NewDecoder(res.Body); ; {
		var l line
		if err := dec.Decode(&l); err != nil {
			return audit.ReplayReport{}, fmt.Errorf("the daemon broke off: %w; look at its log", err)
		}
		switch {
		case l.Error != "":
			return audit.ReplayReport{}, errors.New(l.Error)
		case l.Result != nil:
			var report audit.ReplayReport
			return report, json.Unmarshal(l.Result, &report)
		case l.Progress != nil && progress != nil:
			progress(*l.Progress)
		}
	}
}

// Export copies the daemon's log to w.
func (c *Client) Export(ctx context.Context, w io.Writer, o audit.ExportOptions) (audit.Exported, error) {
	var done audit.Exported
	res, err := c.do(ctx, "POST", "/export", exportRequest{Format: o.Format, From: o.From, To: o.To})
	if err != nil {
		return done, err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(w, res.Body); err != nil {
		return done, fmt.Errorf("export: %w", err)
	}
	var l line
	if err := json.Unmarshal([]byte(res.Trailer.Get(exportTrailer)), &l); err != nil {
		return done, errors.New("export: the daemon broke off; look at its log")
	}
	if l.Error != "" {
		return done, errors.New(l.Error)
	}
	return done, json.Unmarshal(l.Result, &done)
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	res, err := c.do(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("the daemon's answer to %s: %w", path, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://icyloom"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set(protocolHeader, strconv.Itoa(Protocol))
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // best effort: the status alone is a fault already
	_ = res.Body.Close()
	if message := strings.TrimSpace(string(text)); message != "" {
		return nil, errors.New(message)
	}
	return nil, fmt.Errorf("the daemon answered %s with %s", path, res.Status)
}
