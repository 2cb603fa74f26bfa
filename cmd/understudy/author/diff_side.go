package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
)

// side is one of the two contents that `diff` compares.
//
// Of each kind the policy is complete, but for folders and bundles, which have no more than modules,
// data and the rules of --rule.
type side struct {
	// name is the side as it was given, and kind what that is.
	name, kind string
	// resource, etag and revision are those of the server; empty for a file.
	resource, etag, revision string
	policy                   *adminpb.Policy
	// partial says that it has modules and data alone, and rules if ruled.
	partial, ruled bool
}

// String says what a side is, and which version.
func (s *side) String() string {
	text := s.name + " (" + s.kind
	if s.revision != "" {
		text += ", revision " + s.revision[:min(len(s.revision), 12)]
	}
	if s.etag != "" {
		text += ", etag " + s.etag
	}
	return text + ")"
}

// json is the side as -o json has it.
func (s *side) json() sideJSON {
	return sideJSON{Name: s.name, Kind: s.kind, Resource: s.resource, Etag: s.etag, Revision: s.revision}
}

// part is what of a policy can be compared with a partial side.
func (s *side) part(of *adminpb.Policy) *adminpb.Policy {
	p := &adminpb.Policy{Modules: of.GetModules(), Data: of.GetData()}
	if s.ruled {
		p.Rules = of.GetRules()
	}
	return p
}

// read reads what an argument names. What may be a file as well as a policy of the server is
// refused: a wrong guess would be a diff of something with itself, or a gate that is open.
//
// The order matters: ends of files first, then paths, then names. Only the last may be ambiguous.
func (f *diffFlags) read(ctx context.Context, name string) (*side, error) {
	switch {
	case name == "-" || command.OneOf(filepath.Ext(name), ".yaml", ".yml", ".json"):
		policy, err := readPolicy(name, f.client.In)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &side{name: name, kind: "file", policy: policy}, nil
	// It is asked for as a path, so a missing one is an error and no name.
	case isPath(name):
		return f.fromFolder(ctx, name)
	case !strings.HasPrefix(name, "projects/") && !strings.Contains(name, "@"):
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			return nil, command.Usage(fmt.Errorf("%[1]q is a file or folder here, and may be a policy of the server: write ./%[1]s for the one, and %[2]s for the other",
				name, f.unambiguous(name)))
		}
	}
	return f.fromServer(ctx, name)
}

// isPath reports whether a side can be nothing but a file or a folder.
//
// A path of a folder begins with a dot or a slash, so that shop/tighter is always an experiment.
func isPath(name string) bool {
	for _, begin := range []string{"./", "../", "/"} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return name == "." || name == ".." || command.OneOf(filepath.Ext(name), ".rego", ".gz", ".tgz")
}

// unambiguous is how a policy or an experiment is named that a file has the name of.
//
// An experiment has no @live: its whole name is none of a file.
func (f *diffFlags) unambiguous(name string) string {
	if strings.Contains(name, "/") {
		return f.client.Name(name)
	}
	return name + "@live"
}

// fromFolder reads a folder, a bundle or a module.
func (f *diffFlags) fromFolder(ctx context.Context, name string) (*side, error) {
	options, err := f.source.options()
	if err != nil {
		return nil, err
	}
	options.WithoutTests = f.withoutTests
	from, err := readBundle(ctx, name, nil, options)
	if err != nil {
		return nil, explain(name, err)
	}
	policy, err := policyOf(name, from)
	if err != nil {
		return nil, err
	}
	// Rules have no IDs here, and so compare by what they are.
	for _, rule := range f.rules {
		policy.Rules = append(policy.Rules, &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: rulePath(rule)}}})
	}
	return &side{name: strings.TrimSuffix(name, "/"), kind: "folder or bundle", policy: policy, partial: true, ruled: len(f.rules) > 0}, nil
}

// fromServer reads a live policy, an experiment or a revision.
//
// Each side has a connection of its own, which is opened when it is needed: two files need none.
func (f *diffFlags) fromServer(ctx context.Context, name string) (*side, error) {
	if err := f.client.Connect(); err != nil {
		return nil, command.Usage(err)
	}
	defer func() { _ = f.client.Conn.Close() }()
	policy, revision, versioned := strings.Cut(name, "@")
	if versioned && revision != "live" {
		found, err := f.client.Revision(ctx, cli.RevisionOf{Policy: policy, ID: revision})
		if err != nil {
			return nil, err
		}
		id := authz.ResourceName(found.Name).ID()
		return &side{name: name, kind: "revision", resource: found.Name, revision: id, policy: found.Snapshot}, nil
	}
	found, err := f.client.Policy(ctx, policy)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &side{name: policy, kind: "live", resource: f.client.Name(policy), etag: found.Etag, policy: found}
	if found.Revision != "" {
		s.revision = authz.ResourceName(found.Revision).ID()
	}
	// The policy of an experiment has the revision that it was made from, which is not what it is.
	if authz.ResourceName(s.resource).Experiment() != "" {
		s.kind, s.revision = "experiment", ""
	}
	return s, nil
}
