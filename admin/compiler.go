package admin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
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
