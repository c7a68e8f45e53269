package spool_test

import (
	"bytes"
	"log/slog"
	"sync"
)

// words collects what a logger says.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *words) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
