// Package feed shows what happens while it happens: GET /ws/events, over a
// WebSocket or as server-sent events.
//
// Finals are the events that this process appends, each once the log has it, as
// the bytes that the log has. Deltas are not in the log and never will be: an
// llm.started or llm.delta says that a call runs and how far it is, in counts
// and times, under the id that its llm.call will have. Both have the envelope of
// events/FORMAT.md.
//
// A listener that does not keep up loses messages and is told how many; one that
// takes nothing any more is dropped. Nobody who appends ever waits for a
// listener, and while nobody listens nothing is done but to see that.
package feed
