// Package author has the commands for those who write policies. They work on files,
// without a server: import and lock make a policy or a Policyfile lock of OPA's bundles
// and folders, test runs test_ rules, and explain-cost says what decisions cost (it asks a
// server unless it is given a file).
//
// All of them read in the same way (source.go) and compile as a server does, so what they
// accept, a server accepts. They print what they make and write a file only when all of it
// is well: a pipeline that stops at an exit code never has half of a policy.
//
// What a bundle or a folder contains is not trusted. Links do not lead out of a folder,
// sizes are bounded, and texts from inside are escaped before they reach a terminal.
//
// # How a file is read
//
// What a name means goes by its end, in all of these commands:
//
//	policy.yaml, policy.yml, policy.json   a resource, as `apply -f` reads it
//	authz.rego                             one module
//	a folder                               modules and data, nested by folders
//	anything else                          an OPA bundle, tar and gzip
//	-                                      standard input
//
// A resource has the rules that decide. All others have modules and data alone, and --rule or OPA's
// configuration says which rules decide (import.go).
//
// # Names of the server
//
// diff, replay and explain-cost also take names of policies and experiments. A name that can be both
// is refused, with both ways to write it: what is compared must not depend on the folder in which the
// command runs.
//
// # Exit codes
//
// They are those of package cli, but for `diff`, which has those of diff(1): 0 is equal, 1 differs,
// 2 is trouble. `test` and `replay` end with 1 where there was nothing to test or to compare: a
// misspelled name must not pass in a pipeline for ever.
package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	"github.com/spf13/pflag"

	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/rego"
	"understudy/rego/bundle"
)

// sourceFlags say how a bundle or a folder is read.
//
// They have the names that OPA's own flags have.
type sourceFlags struct {
	// v0Compatible translates modules; skipVerify takes what is signed without a look at
	// it.
	v0Compatible, skipVerify bool
	// verificationKey is a file, empty for bundles without a signature.
	verificationKey string
	// signingAlg is one of those that OPA signs with.
	signingAlg string
}

// bind declares the flags.
func (s *sourceFlags) bind(f *pflag.FlagSet) {
	f.BoolVar(&s.v0Compatible, "v0-compatible", false, "translate modules of Rego v0 instead of refusing them")
	f.BoolVar(&s.skipVerify, "skip-verify", false, "take a signed bundle without verifying its signature")
	f.StringVar(&s.verificationKey, "verification-key", "", "a file with the public key (PEM) or the secret that verifies the signature")
	f.StringVar(&s.signingAlg, "signing-alg", "RS256", "the algorithm of the signature")
}

// options turns the flags into those of the reader.
//
// A key file is read once, before anything else: its errors are ones of usage.
func (s *sourceFlags) options() (bundle.Options, error) {
	options := bundle.Options{V0Compatible: s.v0Compatible, SkipVerify: s.skipVerify}
	if s.verificationKey == "" {
		return options, nil
	}
	key, err := command.ReadSmallFile(s.verificationKey)
	if err != nil {
		return options, command.Usage(fmt.Errorf("--verification-key: %w", err))
	}
	// A secret may end with the line break of an editor; PEM does not mind.
	options.Key = &bundle.VerificationKey{Key: string(bytes.TrimSpace(key)), Algorithm: s.signingAlg}
	return options, nil
}

// readBundle reads a bundle, a folder, one .rego file, or a bundle on standard
// input, which is -.
//
// Which of them it is, the name says: a folder is one by what it is on disk, a module by
// .rego, and all else is a bundle.
//
// All of its errors name what in the bundle is wrong; the caller adds the name of the bundle.
func readBundle(ctx context.Context, name string, stdin io.Reader, options bundle.Options) (*bundle.Bundle, error) {
	if name == "-" {
		return bundle.Read(ctx, stdin, options)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(ctx, name, options)
	}
	if filepath.Ext(name) == ".rego" {
		text, err := command.ReadFile(name, nil)
		if err != nil {
			return nil, err
		}
		// One module is a folder with one file, so it goes the same way.
		return bundle.ReadFolder(ctx, fstest.MapFS{filepath.Base(name): {Data: text}}, options)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return bundle.Read(ctx, f, options)
}

// readFolder reads a folder; links cannot lead out of it.
//
// Anyone who wrote the folder need not be trusted with the files of anyone who imports it.
func readFolder(ctx context.Context, name string, options bundle.Options) (*bundle.Bundle, error) {
	// Root refuses every path that leaves the folder, by .. or by a link, at each access.
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return bundle.ReadFolder(ctx, root.FS(), options)
}

// explain returns an error with every problem of modules or of a policy, one a line, with its
// place.
//
// Compilers report all problems at once, so that nobody fixes them one run after the other. Any
// other error is returned with the name before it.
func explain(name string, err error) error {
	var modules *rego.CompileError
	var policy *authz.CompileError
	var lines []string
	switch {
	case errors.As(err, &modules):
		for _, p := range modules.Problems {
			// A path that names no rule is in no file.
			if p.File == "" {
				lines = append(lines, p.Message)
				continue
			}
			lines = append(lines, fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Row, p.Column, p.Code, p.Message))
		}
	case errors.As(err, &policy):
		for _, v := range policy.Violations {
			if v.File == "" {
				v.Description = v.Field + ": " + v.Description
			}
			lines = append(lines, v.Description)
		}
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s does not compile:\n  %s", name, strings.Join(lines, "\n  "))
}
