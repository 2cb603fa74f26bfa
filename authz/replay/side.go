package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/rego"
)

// Side says which of the two policies something is about.
type Side string

// The sides.
const (
	Live      Side = "live policy"
	Candidate Side = "candidate"
)

// cachedDecisions is how many decisions of a side are cached.
const cachedDecisions = 1 << 15

// side is one of the two policies. It is safe for concurrent use.
type side struct {
	name     Side
	source   *adminpb.Policy
	compiled *authz.Policy
	cached   *cache.Policy
	// references are the places that read the input, by file and line.
	references []rego.Reference
	// always are the fields that each document for Envoy has, as far as the policy reads them.
	always fields
}

// newSide compiles a policy. The error is an *authz.CompileError or that of ctx.
func newSide(ctx context.Context, name Side, p *adminpb.Policy) (*side, error) {
	compiled, err := authz.Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &side{name: name, source: p, compiled: compiled, cached: cache.NewPolicy(compiled)}
	if err := s.cached.SetSize(cachedDecisions); err != nil {
		return nil, fmt.Errorf("making the decision cache: %w", err)
	}
	if s.references, err = rego.References(ctx, p.GetModules()); err != nil {
		return nil, err
	}
	for field, path := range envoyFields {
		if s.reads(path) {
			s.always |= field
		}
	}
	return s, nil
}

// decide returns the decision on a request, by its own time.
func (s *side) decide(ctx context.Context, r *authz.Request, c authz.Conditions) authz.Decision {
	c.Name = string(s.name)
	return s.cached.Decide(ctx, r, c)
}

// asks reports whether a path is that of a rule of the chain.
func (s *side) asks(path string) bool {
	return slices.ContainsFunc(s.source.GetRules(), func(r *adminpb.PolicyRule) bool {
		return r.GetRego() != nil && (r.GetRego().GetPath() == path || r.GetRego().GetPath() == "" && path == usualPath)
	})
}

// usualPath is the rule of a filter that names none.
const usualPath = "envoy/authz/allow"

// reads reports whether the policy reads something at, above or below a path of the input.
func (s *side) reads(path []string) bool {
	if s.compiled.NoOp() {
		return false
	}
	node := s.compiled.Reads().Reads
	for _, name := range path {
		if node.Whole() {
			return true
		}
		below := node.Child(name)
		if below == nil {
			below = node.Child(rego.IndexName(indexOf(name)))
		}
		if node = below; node == nil {
			return false
		}
	}
	return node.Exists() || len(node.Names()) > 0
}

// indexOf returns the index that a name of a JSON pointer is; -1 for none.
func indexOf(name string) (n int) {
	if name == "" || len(name) > 6 {
		return -1
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// place returns where the policy reads a field, as file:line; empty if no place names it. Of
// several it is the one that names most of it, and of those the first.
func (s *side) place(path []string) string {
	best, most := "", -1
	for _, ref := range s.references {
		common := 0
		for common < min(len(ref.Path), len(path)) && ref.Path[common] == path[common] {
			common++
		}
		if common > most && common == min(len(ref.Path), len(path)) {
			best, most = fmt.Sprintf("%s:%d", ref.File, ref.Row), common
		}
	}
	return best
}

// missing is a field that a policy reads and an entry has not.
type missing struct {
	side  *side
	field string
	path  []string
}

// lost returns the fields that a policy reads of those that pointers into an event name: what
// was erased, or replaced.
func (s *side) lost(pointers []string, out []missing) []missing {
	for _, text := range pointers {
		path, ok := inputPath(text)
		if ok && s.reads(path) {
			out = append(out, missing{s, fieldOf(path), path})
		}
	}
	return out
}

// absent returns the fields that a policy reads and that every document for Envoy has, but not
// one that has these.
func (s *side) absent(has fields, out []missing) []missing {
	for field := fields(1); field < hasAll; field <<= 1 {
		if s.always&^has&field != 0 {
			path := envoyFields[field]
			out = append(out, missing{s, fieldOf(path), path})
		}
	}
	return out
}

// fieldOf is how a field is shown: as policies write it.
func fieldOf(path []string) string { return strings.Join(append([]string{"input"}, path...), ".") }

// inputPath returns the path below the input that a JSON pointer into an event leads to. It
// reports false for a pointer to something else.
func inputPath(pointer string) ([]string, bool) {
	names := strings.Split(strings.Trim(pointer, "/"), "/")
	if names[0] != "input" {
		return nil, false
	}
	for i, name := range names {
		names[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return names[1:], true
}
