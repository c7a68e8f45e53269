package gateway

import (
	"strconv"

	"github.com/icyloom/icyloom/gateway/internal/loop"
)

// checkLoop tells of a conversation that goes round in circles, in the event and
// in a header of the answer, whoever gives it. It never keeps a request back: the
// one who asks may know why.
func (c *call) checkLoop() {
	if tool, times := loop.Find(c.req.Conversation(), c.rt.api); times > 0 {
		c.ev.Loop = true
		c.loop = clip(tool, 64) + " x" + strconv.Itoa(times)
	}
}
