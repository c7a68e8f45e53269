package openai

import (
	"errors"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

var errStub = errors.New("openai: not yet written")

func (Chat) API() events.API                                      { return events.APIChat }
func (Chat) ReadJSON([]byte) protocol.Facts                       { return protocol.Facts{} }
func (Chat) NewMeter() protocol.Meter                             { return stubMeter{} }
func (Chat) ToSSE([]byte, protocol.Replay) ([]byte, error)        { return nil, errStub }
func (Chat) ToJSON([]byte) ([]byte, error)                        { return nil, errStub }
func (Chat) SSE(b []byte, _ protocol.Replay) ([]byte, error)      { return b, nil }
func (Chat) ErrorBody(_, _ string) []byte                         { return nil }
func (Chat) ErrorEvent(_, _ string, _ int) []byte                 { return nil }
func (Responses) API() events.API                                 { return events.APIResponses }
func (Responses) ReadJSON([]byte) protocol.Facts                  { return protocol.Facts{} }
func (Responses) NewMeter() protocol.Meter                        { return stubMeter{} }
func (Responses) ToSSE([]byte, protocol.Replay) ([]byte, error)   { return nil, errStub }
func (Responses) ToJSON([]byte) ([]byte, error)                   { return nil, errStub }
func (Responses) SSE(b []byte, _ protocol.Replay) ([]byte, error) { return b, nil }
func (Responses) ErrorBody(_, _ string) []byte                    { return nil }
func (Responses) ErrorEvent(_, _ string, _ int) []byte            { return nil }

type stubMeter struct{}

func (stubMeter) Event([]byte) protocol.Class { return protocol.ClassForward }
func (stubMeter) Facts() protocol.Facts       { return protocol.Facts{} }
