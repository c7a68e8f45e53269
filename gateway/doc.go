// Package gateway is the HTTP handler between LLM clients and the APIs they
// call. It forwards a request as it came, answers a repeated one from a cache,
// and appends one llm.call event for each.
//
// Vocabulary: an upstream is an LLM API with a base URL and a family, the
// protocol family (openai or anthropic) that it speaks. A route is what a path
// asks for: one of the known endpoints, or any other path, which passes through
// uncached. A hit is answered from the cache, a miss by the upstream, a bypass by
// the upstream without asking the cache. A terminal event is the one at which
// clients stop reading a stream. A turn is one upstream's try at a request: where
// several offer the model, the next has its turn when the one before failed and
// the client has nothing yet.
//
// What it promises: no failure of the gateway's own withholds an answer that the
// upstream gave; an answer belongs to the very request it is given to; the bytes
// of bodies are not touched but for three edits in place (see Gateway); and the
// event of a request is appended before the end of its answer leaves.
package gateway
