package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	// perSecond is how many requests the team makes.
	perSecond = 4
	// pool is how many questions are asked again and again.
	pool = 60
	// repeatShare is how often one of those is asked, of 100.
	repeatShare = 55
)

// traffic asks the gateway until ctx ends, and waits for what it asked.
func traffic(ctx context.Context, gateway string, seed uint64, logger *slog.Logger) {
	r := rand.New(rand.NewPCG(seed, 2))
	members := team()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for n := pool; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p, asked, leave := pick(r, members), n, r.IntN(80) == 0
		if r.IntN(100) < repeatShare {
			asked = int(r.ExpFloat64()*8) % pool
		}
		running.Go(func() {
			if err := ask(ctx, gateway, p, asked, leave); err != nil && ctx.Err() == nil {
				logger.Debug("demo request", "error", err)
			}
		})
	}
}

// ask sends one request and reads the answer; with leave it goes in mid-answer,
// as people do.
func ask(ctx context.Context, gateway string, p persona, n int, leave bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	path, body := request(p, n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/"+p.upstream+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer demo")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("User-Agent", p.client)
	req.Header.Set("X-Icyloom-Session", fmt.Sprintf("%s-%d", p.session, n%7))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if leave {
		_, err = io.CopyN(io.Discard, res.Body, 200)
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func request(p persona, n int) (path string, body []byte) {
	text := question(p, n)
	turn := []object{{"role": "user", "content": text}}
	o := object{"model": p.model, "stream": p.stream}
	switch p.api {
	case "messages":
		path, o["messages"], o["max_tokens"] = "/v1/messages", turn, 1024
		o["system"] = "You work on a small web shop."
	case "responses":
		path, o["input"], o["store"] = "/v1/responses", turn, false
		o["instructions"] = "You review changes to a small web shop."
	default:
		path, o["messages"] = "/v1/chat/completions", turn
	}
	body, err := json.Marshal(o)
	if err != nil {
		return path, nil // an object of strings, numbers and lists always marshals
	}
	return path, body
}
