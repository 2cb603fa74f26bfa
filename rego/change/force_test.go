package change_test

import (
	"sync"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/change"
)

// TestComparisonsShareNothing compares policies with conditions on several goroutines: none of them may write to what
// OPA has for all, such as the root of all references to data.
func TestComparisonsShareNothing(t *testing.T) {
	source := func(condition string) change.Source {
		return change.Source{
			Modules: map[string]string{"a.rego": "package a\n\nallow if {\n\tinput.x\n\tdata.y\n\t" + condition + "\n}\n"},
			Paths:   []string{"a/allow"},
		}
	}
	var comparing sync.WaitGroup
	for range 4 {
		comparing.Go(func() {
			if _, err := change.Compare(t.Context(), source("input.z"), source("input.w > 3")); err != nil {
				t.Error(err)
			}
		})
	}
	comparing.Wait()
	if at := ast.DefaultRootDocument.Location; at != nil {
		t.Errorf("the root of all references is at %s", at)
	}
}
