package candidates

import (
	"fmt"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// TestIndexesHaveABudget indexes a list whose entries have lists of texts: what is
// beyond the budget has no index, nor has what comes after it.
func TestIndexesHaveABudget(t *testing.T) {
	var entries []*ast.Term
	for i := range 20 {
		texts := ast.NewArray()
		for j := range 50 {
			texts = texts.Append(ast.StringTerm(fmt.Sprint(i, j)))
		}
		entries = append(entries, ast.NewTerm(ast.NewObject([2]*ast.Term{ast.StringTerm("g"), ast.NewTerm(texts)})))
	}
	collections := []ast.Value{ast.NewArray(entries...)}
	conditions := []condition{{member, ast.Ref{ast.StringTerm("g")}, ast.StringTerm("11")}}
	// 20 entries and 1,000 texts.
	for budget, want := range map[int]bool{10: false, 1000: false, 1020: true} {
		x := &indexer{budget, make(map[source]*postings)}
		if got := x.best(collections, conditions) != nil; got != want {
			t.Errorf("with %d to look at there is an index: %v, want %v", budget, got, want)
		}
		if again := x.best(collections, conditions) != nil; again != want {
			t.Errorf("with %d to look at there is an index the second time: %v, want %v", budget, again, want)
		}
	}
}

// TestEntriesWithoutTheFieldCost looks for fields that no entry has, again and again.
func TestEntriesWithoutTheFieldCost(t *testing.T) {
	entries := make([]*ast.Term, 20)
	for i := range entries {
		entries[i] = ast.ObjectTerm()
	}
	x := &indexer{1000, make(map[source]*postings)}
	for i := range 100 {
		x.best([]ast.Value{ast.NewArray(entries...)}, []condition{
			{equal, ast.Ref{ast.StringTerm(fmt.Sprint("field", i))}, ast.StringTerm("a")},
		})
	}
	if x.budget >= 0 {
		t.Errorf("%d are left after 2,000", x.budget)
	}
}
