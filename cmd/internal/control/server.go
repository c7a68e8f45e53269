package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/projections"
)

// exportTrailer says, after the bytes of an export, how it ended.
const exportTrailer = "Icyloom-Exported"

// Server answers on the socket of one home.
type Server struct {
	service Service
	path    string
	http    *http.Server
	done    chan error
}

// Listen opens the socket and answers until Close. The caller holds the home's
// lock, so a socket that is left there belongs to nobody.
func Listen(path string, s Service, logger *slog.Logger) (*Server, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w; remove what is in its place", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// The home itself is 0700; this holds for one in the temporary folder.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), l.Close())
	}
	srv := &Server{service: s, path: path, done: make(chan error, 1)}
	srv.http = &http.Server{
		Handler: srv.routes(), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	go func() { srv.done <- srv.http.Serve(l) }()
	return srv, nil
}

// Close stops answering, cuts what is still running when ctx ends, and waits.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if serr := <-s.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.service.Hello(), nil) })
	mux.HandleFunc("GET /checks", func(w http.ResponseWriter, r *http.Request) { answer(w, s.service.Checks(r.Context()), nil) })
	mux.HandleFunc("GET /dashboard", func(w http.ResponseWriter, r *http.Request) {
		d, err := s.service.Dashboard(r.Context(), projections.Window(r.URL.Query().Get("window")))
		answer(w, d, err)
	})
	mux.HandleFunc("POST /replay", s.replay)
	mux.HandleFunc("POST /export", s.export)
	s.cacheRoutes(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked, err := strconv.Atoi(r.Header.Get(protocolHeader)); err != nil || asked != Protocol {
			http.Error(w, mismatch(Protocol, asked).Error(), http.StatusUpgradeRequired)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// answer sends one value. The asker may be gone, which is nobody's fault here.
func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) replay(w http.ResponseWriter, r *http.Request) {
	var req audit.ReplayRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, "the request is not JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	out := json.NewEncoder(w)
	send := func(l line) {
		_ = out.Encode(l) // a reader that left is seen by the request's context
		_ = http.NewResponseController(w).Flush()
	}
	report, err := s.service.Replay(r.Context(), req, func(p projections.Progress) { send(line{Progress: &p}) })
	result := json.RawMessage(nil)
	if err == nil {
		result, err = json.Marshal(report)
	}
	if err != nil {
		send(line{Error: err.Error()})
		return
	}
	send(line{Result: result})
}

// export streams the bytes themselves; how it ended follows as a trailer, so
// that a cut is never taken for the end.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	var req exportRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, "the request is not JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", exportTrailer)
	var l line
	done, err := s.service.Export(r.Context(), w, audit.ExportOptions{Format: req.Format, From: req.From, To: req.To})
	if err == nil {
		l.Result, err = json.Marshal(done)
	}
	if err != nil {
		l.Error = err.Error()
	}
	text, err := json.Marshal(l)
	if err != nil {
		return // without the trailer the asker sees a cut
	}
	_, _ = io.WriteString(w, "") // a status line even for an empty log
	w.Header().Set(exportTrailer, string(text))
}
