package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// TestStartTidies: older values and parts that a stop left behind are erased at
// the next start, and what is current stays.
func TestStartTidies(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large) // never fails
	b := events.Body{Class: events.BodyDrawer, Key: "k", Data: large}
	s, err := l.session()
	if err != nil {
		t.Fatal(err)
	}
	content, err := l.bodies.codec.compress(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // as Put, without the sweep after it
		if err := s.put(t.Context(), b, content); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.pub.publish(t.Context(), "body.drawer.orphan.part", "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if l, err = Open(t.Context(), Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	want := uint64(1 + (len(content)+chunkBytes-1)/chunkBytes)
	messagesLeft(t, l, want)
	got, err := l.Get(t.Context(), b.Class, b.Key, time.Now())
	if err != nil || string(got.Data) != string(large) {
		t.Fatalf("%d bytes, %v", len(got.Data), err)
	}
}

// messagesLeft waits until BODIES holds this many messages.
func messagesLeft(t *testing.T, l *Log, want uint64) {
	t.Helper()
	s, err := l.session()
	if err != nil {
		t.Fatal(err)
	}
	for {
		info, err := s.bodies.Info(t.Context())
		if err != nil || info.State.Msgs < want {
			t.Fatalf("fewer than %d messages are left (%v)", want, err)
		}
		if info.State.Msgs == want {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestReplacedIsErased: a replaced body's bytes go soon, without a restart.
func TestReplacedIsErased(t *testing.T) {
	l, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := l.Put(t.Context(), events.Body{Class: events.BodyCache, Key: "k", Data: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	messagesLeft(t, l, 1)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAbsentFromMemory: once the list is loaded, a body that is not there is
// known without the broker, also for an erased one.
func TestAbsentFromMemory(t *testing.T) {
	l, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for !l.bodies.index.complete.Load() {
		time.Sleep(time.Millisecond)
	}
	for i := range 100 {
		if err := l.Put(t.Context(), events.Body{Class: events.BodyCache, Key: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Erase(t.Context(), events.BodyCache, "7"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if lacks := l.bodies.index.lacks(events.BodyCache, fmt.Sprint(i)); lacks != (i == 7 || i >= 100) {
			t.Fatalf("key %d: lacks is %t", i, lacks)
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPlainAck: the short way and the long way read the same.
func TestPlainAck(t *testing.T) {
	for in, want := range map[string]uint64{
		`{"stream":"LEDGER", "seq":12}`: 12, `{"stream":"LEDGER","seq":18446744073709551615}`: 18446744073709551615,
		`{"stream":"LEDGER","seq":12,"duplicate":true}`: 0, `{"stream":"LEDGER","seq":}`: 0, `{"error":{}}`: 0, `{"stream":"LEDGER","seq":1}x`: 0, ``: 0,
	} {
		if seq, ok := plainAck([]byte(in)); ok != (want > 0) || ok && seq != want {
			t.Errorf("%s: %d, %t", in, seq, ok)
		}
	}
}

// TestUnacknowledgedPut: a body whose acknowledgement did not come may be
// stored all the same; then it is found, and Erase erases it.
func TestUnacknowledgedPut(t *testing.T) {
	l, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for !l.bodies.index.complete.Load() {
		time.Sleep(time.Millisecond)
	}
	b := events.Body{Class: events.BodyDrawer, Key: "k", Data: []byte("kept all the same")}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for { // the acknowledgement may be faster
		if err := l.Put(gone, b); err != nil {
			break
		}
		b.Key += "k"
	}
	s, err := l.session()
	if err != nil {
		t.Fatal(err)
	}
	for err = events.ErrNoBody; errors.Is(err, events.ErrNoBody); { // it is on its way
		_, err = s.last(t.Context(), bodySubject(b.Class, b.Key))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.Get(t.Context(), b.Class, b.Key, time.Now()); err != nil || string(got.Data) != string(b.Data) {
		t.Errorf("get: %q, %v", got.Data, err)
	}
	if err := l.Erase(t.Context(), b.Class, b.Key); err != nil {
		t.Error(err)
	}
	if _, err := s.last(t.Context(), bodySubject(b.Class, b.Key)); !errors.Is(err, events.ErrNoBody) {
		t.Errorf("after its erasure: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
