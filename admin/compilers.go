package admin

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// maxCompiled is the number of contents that are known to compile.
const maxCompiled = 1024

// compilers bounds what compiling costs: as many policies are compiled at once as there
// are processors, the others wait; and what has compiled is not compiled again, so that
// a change that loses races, a promotion and a rollback cost next to nothing. It is safe
// for concurrent use.
type compilers struct {
	// compiler does the work.
	compiler Compiler
	// busy has a token for each compilation that is under way.
	busy chan struct{}

	mu sync.Mutex
	// compiled are the hashes of contents that do, at most maxCompiled.
	compiled map[string]bool
}

func newCompilers(compiler Compiler) *compilers {
	if compiler == nil {
		compiler = localCompiler{}
	}
	return &compilers{compiler: compiler, busy: make(chan struct{}, runtime.GOMAXPROCS(0)), compiled: make(map[string]bool)}
}

// run calls work when its turn comes. The error is that of work, or of ctx if that ends
// before.
func (c *compilers) run(ctx context.Context, work func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
		return work()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compile returns nil if a policy compiles. The error is that of [Compiler.Compile].
func (c *compilers) compile(ctx context.Context, p *adminpb.Policy) error {
	content, err := content.RevisionID(p)
	if err != nil {
		return err
	}
	if c.known(content) {
		return nil
	}
	err = c.run(ctx, func() error { return c.compiler.Compile(ctx, p) })
	if err == nil {
		c.note(content)
	}
	return err
}

func (c *compilers) known(content string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compiled[content]
}

// note begins anew when it is full: what is in use is soon known again.
func (c *compilers) note(content string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.compiled) >= maxCompiled {
		clear(c.compiled)
	}
	c.compiled[content] = true
}

// Packages returns the package of each module, by its name, of modules that are stored and
// so have compiled once; none of what this version cannot parse. policy is whose modules
// they are, for the log. It waits for its turn as compilations do.
func (s *Server) Packages(
	ctx context.Context, policy authz.PolicyID, modules map[string]string,
) (packages map[string]string, err error) {
	err = s.compilers.run(ctx, func() error {
		packages, err = rego.Packages(ctx, modules)
		if refused := (*rego.CompileError)(nil); errors.As(err, &refused) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, s.storeFailed(ctx, "parsing the modules of "+string(policy), err)
	}
	return packages, nil
}
