package cache

import (
	"math/rand/v2"
	"testing"

	"understudy/authz"
	"understudy/rego"
)

// nodesOf returns the nodes through which a record leads, from the root to its decision.
func nodesOf(record []rego.Entry) []id {
	nodes := []id{root}
	for _, entry := range record {
		nodes = append(nodes, rego.NextNode(nodes[len(nodes)-1], entry.Answer))
	}
	return nodes
}

// TestTheFirstNodeThatIsMissing is named by a look-up: the first one on the way of a request to which no
// decision led that was kept. Who waits for an equal request waits there.
func TestTheFirstNodeThatIsMissing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	p := treeOf(t, 10<<20)
	led := map[id]bool{}
	misses := map[int]int{}
	for range 2000 {
		request := someRequest(r)
		record, _ := recordOf(t, p, request)
		nodes := nodesOf(record)
		want := 0
		for want < len(nodes) && led[nodes[want]] {
			want++
		}
		search := p.Search(t.Context(), request)
		missing, outcome := search.missing, search.Outcome
		switch {
		case (outcome == Hit) != (want == len(nodes)):
			t.Fatalf("the outcome is %v; %d of %d nodes are known", outcome, want, len(nodes))
		case outcome != Hit && missing != nodes[want]:
			t.Fatalf("another node than that after %d answers is missing", want)
		case outcome == Hit:
			continue
		}
		misses[want]++
		p.Evaluate(t.Context(), request, authz.Conditions{})
		for _, node := range nodes {
			led[node] = true
		}
	}
	if len(misses) < 4 {
		t.Errorf("nodes are missing after so many answers alone: %v", misses)
	}
}
