package evidence

import (
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// Sampled is the reason of drops that chance chose: what was compared stands for them. All other
// reasons are not by chance.
const Sampled = "sampled"

// cell is where a request is counted: by what the live policy decided, and by what the
// experiment did.
type cell uint8

// The cells. Before deniedFirst are those of requests that the live policy allows, and from it on
// to liveFailed those of requests that it denies.
const (
	bothAllow cell = iota
	allowedChanged
	newlyDenied
	allowedFailed
	bothDeny
	deniedChanged
	newlyAllowed
	deniedFailed
	// liveFailed: the live policy has decided nothing that could be compared.
	liveFailed
	// dropped: the request was not compared.
	dropped
	cells
)

// cellOf returns the cell of a difference; allowed says that the live policy allows.
func cellOf(d authz.Difference, allowed bool) cell {
	switch d {
	case authz.NewlyDenied:
		return newlyDenied
	case authz.NewlyAllowed:
		return newlyAllowed
	case authz.LiveFailed:
		return liveFailed
	}
	first := bothDeny
	if allowed {
		first = bothAllow
	}
	switch d {
	case authz.Unchanged:
		return first
	case authz.ResponseChanged:
		return first + 1
	default:
		return first + 3
	}
}

// counts :: cell → requests.
type counts [cells]int64

func countsMessage(n counts) *evidencepb.Counts {
	return &evidencepb.Counts{
		BothAllow: n[bothAllow], AllowedChanged: n[allowedChanged], NewlyDenied: n[newlyDenied], AllowedFailed: n[allowedFailed],
		BothDeny: n[bothDeny], DeniedChanged: n[deniedChanged], NewlyAllowed: n[newlyAllowed], DeniedFailed: n[deniedFailed],
		LiveFailed: n[liveFailed], Dropped: n[dropped],
	}
}

func countsOf(m *evidencepb.Counts) counts {
	return counts{
		m.GetBothAllow(), m.GetAllowedChanged(), m.GetNewlyDenied(), m.GetAllowedFailed(),
		m.GetBothDeny(), m.GetDeniedChanged(), m.GetNewlyAllowed(), m.GetDeniedFailed(),
		m.GetLiveFailed(), m.GetDropped(),
	}
}

// allowed reports whether one of the two policies allows the requests of a cell.
func (c cell) allowed() bool { return c <= allowedFailed || c == newlyAllowed }

func (n *counts) add(more counts) {
	for i := range more {
		n[i] += more[i]
	}
}

// weighted are requests with what they stand for: counts are those that there were, and weights and
// squares the sums of their weights and of the squares of these.
type weighted struct{ counts, weights, squares counts }

// one counts a request of a weight; 0 stands for 1.
func (w *weighted) one(in cell, weight int64) {
	weight = max(1, weight)
	w.counts[in]++
	w.weights[in] += weight
	w.squares[in] += weight * weight
}

func (w *weighted) add(more weighted) {
	w.counts.add(more.counts)
	w.weights.add(more.weights)
	w.squares.add(more.squares)
}

// weightedOf returns the counts of a pair of evidence.
func weightedOf(m *evidencepb.Pair) weighted {
	n := countsOf(m.GetCounts())
	if m.GetWeights() == nil {
		return weighted{n, n, n}
	}
	return weighted{n, countsOf(m.GetWeights()), countsOf(m.GetSquares())}
}

// set writes the counts into a pair of evidence.
func (w weighted) set(m *evidencepb.Pair) {
	m.Counts = countsMessage(w.counts)
	if w.weights != w.counts {
		m.Weights, m.Squares = countsMessage(w.weights), countsMessage(w.squares)
	}
}
