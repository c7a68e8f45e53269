package jetstream

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	l, err := Open(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	mk, _ := events.NewMaker("n1", nil, nil)
	for i := range 5000 {
		e, _ := mk.Make(events.KindLLMCall, &events.LLMCall{Outcome: events.OutcomeHit, API: events.APIChat})
		seq, err := l.Append(ctx, e)
		if err != nil || seq != uint64(i+1) {
			t.Fatal(seq, err)
		}
	}
	n := 0
	err = l.Read(ctx, 0, 0, func(r []events.Record) error { n += len(r); return nil })
	fmt.Println(n, err)
	start := time.Now()
	fmt.Println(l.Restart(ctx), time.Since(start))
	fmt.Println(l.Check(ctx))
	err = l.Put(ctx, events.Body{Class: events.BodyCache, Key: "k", Data: []byte("hello")})
	b, err2 := l.Get(ctx, events.BodyCache, "k", time.Now())
	fmt.Println(err, err2, string(b.Data))
	start = time.Now()
	fmt.Println(l.Erase(ctx, events.BodyCache, "k"), time.Since(start))
	_, err2 = l.Get(ctx, events.BodyCache, "k", time.Now())
	fmt.Println(err2)
	start = time.Now()
	fmt.Println(l.Close(ctx), time.Since(start))
}
