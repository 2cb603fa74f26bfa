// Package cache holds decisions that are known: it is a decorator in front of a compiled
// policy, which does not know of it.
//
// A request is known by its fingerprint: the SHA-256 of what the policy can read of it, or
// find out about it. A [Cache] maps fingerprints to decisions with their validity, and stores one
// copy of each distinct decision, so that what a front makes of it is made once. A
// [Policy] has a cache in front of an [authz.Policy]; where decisions come from elsewhere,
// a Cache needs the read set alone. A cache never changes a decision: it is emptied by
// being replaced, with its policy.
package cache
