package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/guard"
)

// port is one guarded listener and its server.
type port struct {
	name     string // the config key's section: gateway or console
	listener net.Listener
	server   *http.Server
	done     chan error // Serve's end; nil until serve
}

// listen opens the port that a config key names.
func listen(name, address string) (*port, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return &port{name: name, listener: l}, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s.listen: %s is taken by another program; end that one, or choose another port with --%s-listen or %s.listen in the configuration (port 0 takes any free one)", name, address, name, name)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s.listen: %s may not be listened on by this user; choose a port above 1023 with --%s-listen or %s.listen in the configuration", name, address, name, name)
	}
	return nil, fmt.Errorf("%s.listen: %w; choose an address of this machine", name, err)
}

// number is the bound port.
func (p *port) number() int { return p.listener.Addr().(*net.TCPAddr).Port }

// url is how a client on this machine reaches the port.
func (p *port) url() string {
	addr := p.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// serve answers with h behind the guard. failed is called when serving ends by
// itself. ctx is the parent of every request's context.
func (p *port) serve(ctx context.Context, h http.Handler, g guard.Options, logger *slog.Logger, failed func(error)) error {
	g.Port = p.number()
	door, err := guard.New(g)
	if err != nil {
		return err
	}
	p.server = &http.Server{
		Handler:           door.Wrap(h),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	p.done = make(chan error, 1)
	go func() {
		err := p.server.Serve(p.listener)
		if !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("%s port: %w", p.name, err))
		}
		p.done <- err
	}()
	return nil
}

// stop takes no new requests, lets those that run end until ctx does, then cuts
// them, and waits for the server.
func (p *port) stop(ctx context.Context) error {
	if p.done == nil {
		return p.listener.Close()
	}
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// Cutting is what the deadline is for: the handlers' requests end, and
		// each still leaves its event.
		err = p.server.Close()
	}
	if serr := <-p.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}
