package rego

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"golang.org/x/sync/singleflight"

	"understudy/rego/compile"
)

// interpreter has the modules of a program as OPA's interpreter needs them. They are half of what a program takes in
// memory, and most programs come to no live evaluation that is OPA's: packed, it has the text of the modules alone,
// and compiles them again for the first evaluation that needs them. It is safe for concurrent use.
type interpreter struct {
	compiler atomic.Pointer[ast.Compiler]
	// modules are those of the source; nil if it is never packed.
	modules map[string]string
	making  singleflight.Group
	// packed says that the modules were let go of once, whether they are there again or not.
	packed bool
	// unpacked is called when the modules are there again.
	unpacked func()
}

// interpreterOf returns an interpreter of modules that are compiled.
func interpreterOf(compiler *ast.Compiler, modules map[string]string) *interpreter {
	i := &interpreter{modules: modules}
	i.compiler.Store(compiler)
	return i
}

// get returns the compiled modules. The error is that of ctx; the work goes on without a caller that stops waiting for it.
func (i *interpreter) get(ctx context.Context) (*ast.Compiler, error) {
	if compiler := i.compiler.Load(); compiler != nil {
		return compiler, nil
	}
	made := i.making.DoChan("", func() (any, error) { return nil, i.unpack() })
	select {
	case <-ctx.Done():
		return nil, compile.Ended(ctx)
	case result := <-made:
		return i.compiler.Load(), result.Err
	}
}

// unpack compiles the modules, which have been compiled before. It never panics: it would end the process.
func (i *interpreter) unpack() (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("compiling the modules again: %v", cause)
		}
	}()
	if i.compiler.Load() != nil {
		return nil
	}
	ctx := context.Background()
	modules, err := compile.Parse(ctx, i.modules)
	if err != nil {
		return fmt.Errorf("reading the modules again: %w", err)
	}
	compiler, err := recompiled(ctx, modules)
	if err != nil {
		return fmt.Errorf("compiling the modules again: %w", err)
	}
	i.compiler.Store(compiler)
	if i.unpacked != nil {
		i.unpacked()
	}
	return nil
}

// recompiled compiles modules of a program, or others in their place, for evaluations by OPA alone.
func recompiled(ctx context.Context, modules map[string]*ast.Module) (*ast.Compiler, error) {
	compiler := compile.New(ctx)
	if compiler.Compile(modules); compiler.Failed() {
		return nil, compile.NewError(compile.ProblemsOf(compiler.Errors))
	}
	compile.Release(compiler)
	return compiler, nil
}

// largestPacked is how long the modules of a packed program are, in bytes. To compile as much takes some 50 ms, for
// which a live request can wait; one that waited for longer modules would be denied.
const largestPacked = 64 << 10

// Pack lets go of what no decision of our evaluator needs: OPA's form of the modules, and what explains costs. That is
// more than half of the memory of a program. An evaluation that is OPA's makes the former again, once, which takes as
// long as to compile the modules; then unpacked is called, which may be nil. A program of which the evaluator does not
// know all forms stays as it is, and so does one that is longer than 64 KiB. Nobody may use the program meanwhile.
func (p *Program) Pack(unpacked func()) {
	length := 0
	for _, text := range p.interpreter.modules {
		length += len(text)
	}
	if p.interpreter.modules == nil || length > largestPacked {
		return
	}
	for path := range p.queries {
		if len(p.Interpreted(path)) > 0 {
			return
		}
	}
	for _, q := range p.queries {
		q.compiled.Release()
	}
	p.interpreter.packed, p.interpreter.unpacked = true, unpacked
	p.interpreter.compiler.Store(nil)
}
