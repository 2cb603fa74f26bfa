package cache

// Outcome is what looking for the decision on a request came to.
type Outcome uint8

const (
	// NotCached means: nothing was looked for, because no decision on this request is ever cached.
	NotCached Outcome = iota
	// Miss means: the decision was not cached, or is not valid any more.
	Miss
	// Hit means: the decision was found.
	Hit
)
