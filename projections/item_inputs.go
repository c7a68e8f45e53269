package projections

// items are the inputs of an embeddings request that were answered from the
// cache, and the bodies that the others were kept under.
type items struct {
	tokens         opt
	basis, counter string
	costSaved      opt
	stored         []stored
}

// inputs reads the member items.
func (d *decoder) inputs(c *call, s *scanner) {
	c.items = items{}
	if !s.begin('{') {
		return
	}
	for n := 0; s.err == nil && s.more('}', n); n++ {
		switch string(s.key()) {
		case "usage":
			c.items.tokens, c.items.basis, c.items.counter = d.usage(s)
		case "cost_saved_nusd":
			c.items.costSaved = known(s.num())
		case "stored":
			c.items.stored = nil
			if !s.begin('[') {
				continue
			}
			for k := 0; s.err == nil && s.more(']', k); k++ {
				if v := d.stored(s); len(c.items.stored) < cacheSlots-1 {
					c.items.stored = append(c.items.stored, v)
				}
			}
		default:
			s.skip(0)
		}
	}
}
