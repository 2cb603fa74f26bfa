package admin

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/rego"
	"understudy/rego/change"
	"understudy/rego/regotest"
)

// Compiler finds out whether content is fit to be stored. It is safe for concurrent use.
type Compiler interface {
	// Compile returns nil if a policy compiles. The error is an *authz.CompileError, that of
	// ctx, or wraps ErrNoCompiler.
	Compile(ctx context.Context, p *adminpb.Policy) error
	// Test runs the tests of a policy, all of them within limit and of ctx. The error is as
	// that of Compile, or context.DeadlineExceeded if the limit was too short.
	Test(ctx context.Context, p *adminpb.Policy, limit time.Duration, options regotest.Options) (regotest.Report, error)
	// Items returns in what a policy differs from the live one; if only what has an effect counts, as
	// authz.EffectiveItems. The error is as that of Compile.
	Items(ctx context.Context, live, candidate *adminpb.Policy, effective bool) (*change.List, error)
}

// ErrNoCompiler says that nothing can compile a policy at the moment: nobody knows whether
// it would.
var ErrNoCompiler = errors.New("no policy can be compiled at the moment")

// localCompiler compiles and tests within this process, which nothing bounds: content that
// takes all of its memory ends it.
type localCompiler struct{}

func (localCompiler) Compile(ctx context.Context, p *adminpb.Policy) (err error) {
	background.Run(proto.Size(p), func() { _, err = authz.Compile(ctx, p) })
	return err
}

func (localCompiler) Test(
	ctx context.Context, p *adminpb.Policy, limit time.Duration, options regotest.Options,
) (regotest.Report, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return authz.RunTests(limited, p, options)
}

func (localCompiler) Items(ctx context.Context, live, candidate *adminpb.Policy, effective bool) (list *change.List, err error) {
	items := authz.Items
	if effective {
		items = authz.EffectiveItems
	}
	background.Run(proto.Size(live)+proto.Size(candidate), func() { list, err = items(ctx, live, candidate) })
	return list, err
}

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
