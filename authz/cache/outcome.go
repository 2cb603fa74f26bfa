package cache

// Outcome is what looking for the decision on a request came to.
type Outcome uint8

const (
	// NotCached: nothing was looked for, because no decision on this request is ever cached.
	NotCached Outcome = iota
	// Miss: the decision was not cached, or is not valid any more.
	Miss
	// Hit: the decision was found.
	Hit
)
