package rego_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"understudy/cmd/testkit"
	"understudy/rego"
)

// packedModules have functions, comprehensions, a list of rules with an index, and data.
var packedModules = map[string]string{
	"a.rego": `package a

import data.b

default allow := false

allow if {
	some role in input.roles
	b.may(role, input.path)
	count([x | some x in input.roles; x == role]) == 1
}

area := "red" if input.path == "/red"
area := "blue" if input.path == "/blue"
area := "green" if startswith(input.path, "/green/")

same if input.a == input.b
`,
	"b.rego": `package b

may(role, path) if {
	some allowed in data.roles[role]
	glob.match(allowed, ["/"], path)
}
`,
}

func packable(t *testing.T) *rego.Program {
	t.Helper()
	p, err := rego.Compile(t.Context(), rego.Source{
		Modules: packedModules, Paths: []string{"a/allow", "a/area", "a/same"},
		Data: map[string]any{"roles": map[string]any{"reader": []any{"/red", "/green/*"}, "writer": []any{"/**"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPack: a packed program keeps nothing of OPA's form of the modules, decides as before, and
// makes it again once for whatever is OPA's.
func TestPack(t *testing.T) {
	p := packable(t)
	causes := p.Causes("a/allow")
	var freed atomic.Int64
	for _, m := range p.OPA().Modules {
		for _, rule := range m.Rules {
			runtime.AddCleanup(rule, func(struct{}) { freed.Add(1) }, struct{}{})
		}
	}
	compiler := p.OPA()
	runtime.AddCleanup(compiler, func(struct{}) { freed.Add(1) }, struct{}{})
	want := int64(len(compiler.Modules["a.rego"].Rules) + len(compiler.Modules["b.rego"].Rules) + 1)
	compiler = nil
	var unpacked atomic.Int64
	p.Pack(func() { unpacked.Add(1) })
	testkit.Await(t, "the modules are free", func() bool { runtime.GC(); return freed.Load() == want }, func() any { return freed.Load() })

	in := input(t, `{"roles": ["reader"], "path": "/green/x"}`)
	for path, want := range map[string]rego.Result{"a/allow": {Defined: true, Value: true}, "a/area": {Defined: true, Value: "green"}, "a/same": {}} {
		got, err := p.Eval(t.Context(), path, in, time.Now())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, %v; want %v", path, got, err, want)
		}
	}
	if unpacked.Load() != 0 {
		t.Error("decisions of the evaluator needed OPA's form of the modules")
	}

	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Interpret(ended, "a/allow", in, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("an evaluation that was ended: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := p.Interpret(t.Context(), "a/allow", in, time.Now()); err != nil || got.Value != true {
				t.Errorf("OPA's decision: %v, %v", got, err)
			}
		})
	}
	all.Wait()
	if unpacked.Load() != 1 {
		t.Errorf("the modules were made again %d times", unpacked.Load())
	}
	if got := p.Causes("a/allow"); !reflect.DeepEqual(got, causes) {
		t.Errorf("the causes are %v, before %v", got, causes)
	}
}

// TestPackedProgramsKeepNoModules: no form of Rego has the evaluator keep OPA's form of the modules.
func TestPackedProgramsKeepNoModules(t *testing.T) {
	var packed []*rego.Program
	var free atomic.Int64
	for seed := range uint64(testkit.Cases(200)) {
		for _, module := range []string{formModule(seed), randomModule(seed), randomClosures(seed), manyRules(seed)} {
			p, err := rego.Compile(t.Context(), rego.Source{Modules: map[string]string{"p.rego": module}, Data: formData, Paths: []string{"p/allow"}})
			if err != nil {
				continue // it is no policy
			}
			compiler := p.OPA()
			if p.Pack(nil); p.OPA() != nil {
				continue
			}
			runtime.AddCleanup(compiler, func(struct{}) { free.Add(1) }, struct{}{})
			packed = append(packed, p)
		}
	}
	testkit.Await(t, "the modules are free", func() bool { runtime.GC(); return free.Load() == int64(len(packed)) },
		func() any { return fmt.Sprintf("%d of %d", free.Load(), len(packed)) })
	if len(packed) < 40 {
		t.Errorf("%d programs are packed", len(packed))
	}
	runtime.KeepAlive(packed)
}

// TestPackLeavesOthers: a program with a form that is OPA's stays as it is.
func TestPackLeavesOthers(t *testing.T) {
	p, err := rego.Compile(t.Context(), rego.Source{
		Modules: map[string]string{"a.rego": "package a\n\nallow if input.x with input as {\"x\": true}\n"}, Paths: []string{"a/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.Pack(nil); p.OPA() == nil {
		t.Errorf("a program with %v is packed", p.Interpreted("a/allow"))
	}
}
