// Package cache holds decisions that are known: it is a decorator in front of a compiled
// policy, which does not know of it.
//
// A [Policy] has a tree of questions in front of an [authz.Policy]: a request is asked what the
// evaluations before it asked, and gets the decision of those that gave the same answers. One copy of each
// distinct decision is stored, so that what a front makes of it is made once. [Asked] counts what keeps
// decisions from repeating. A cache never changes a decision: it is emptied by being replaced, with its policy.
package cache
