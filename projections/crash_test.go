package projections

func maybeChild() {}
