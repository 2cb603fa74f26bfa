package admin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// TestCompilersWait has as many compilations at once as there are processors. Anyone who
// waits does so no longer than its context.
func TestCompilersWait(t *testing.T) {
	c := newCompilers(nil)
	started, release := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	work := func() error {
		started <- struct{}{}
		<-release
		return nil
	}
	for range runtime.GOMAXPROCS(0) {
		go func() { done <- c.run(t.Context(), work) }()
		testkit.Closed(t, "the first compilation to start", started)
	}
	gone, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		waiting <- c.compile(gone, &adminpb.Policy{Modules: map[string]string{"web.rego": "package web\n\nallow := true\n"}})
	}()
	cancel()
	if err := testkit.Receive(t, "the canceled compilation to end", waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("what waits for its turn ends with %v, want the error of its context", err)
	}
	go func() { done <- c.run(t.Context(), work) }()
	close(release)
	testkit.Closed(t, "the second compilation to start", started)
	for range runtime.GOMAXPROCS(0) + 1 {
		if err := testkit.Receive(t, "a compilation to end", done); err != nil {
			t.Error(err)
		}
	}
}

// TestCompiledIsKnown compiles no content twice, forgets what does not compile, and
// remembers a bounded number.
func TestCompiledIsKnown(t *testing.T) {
	c := newCompilers(nil)
	good := &adminpb.Policy{Name: "a", Modules: map[string]string{"web.rego": "package web\n\nallow := true\n"}}
	bad := &adminpb.Policy{Modules: map[string]string{"web.rego": "package"}}
	for range 2 {
		if err := c.compile(t.Context(), good); err != nil {
			t.Error(err)
		}
		if err := c.compile(t.Context(), bad); err == nil {
			t.Error("what does not compile does the second time")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.compile(gone, &adminpb.Policy{Name: "b", Modules: good.Modules}); err != nil {
		t.Errorf("the same content of another name is compiled again: %v", err)
	}
	for i := range 2 * maxCompiled {
		c.note(fmt.Sprint(i))
	}
	if n := len(c.compiled); n > maxCompiled {
		t.Errorf("%d contents are known, want at most %d", n, maxCompiled)
	}
}
