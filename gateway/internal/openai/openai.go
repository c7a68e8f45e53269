// Package openai is the wire form of OpenAI's chat completions and responses,
// as OpenAI and the many who copied them speak it.
package openai

import "github.com/icyloom/icyloom/gateway/internal/protocol"

// Chat is POST /v1/chat/completions.
type Chat struct{}

// Responses is POST /v1/responses.
type Responses struct{}

var (
	_ protocol.Protocol = Chat{}
	_ protocol.Protocol = Responses{}
)
