package policyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// Identifier is the identifier of a cookbook that is a module: its hash.
func Identifier(module string) string {
	sum := sha256.Sum256([]byte(module))
	return hex.EncodeToString(sum[:])
}

// Policy returns the policy that a lock stands for: its rules and its modules. The
// error says why nothing of it can be enforced. That is no mistake: a lock may be for
// others.
func (l *Lock) Policy() (*adminpb.Policy, error) {
	if len(l.RunList) == 0 {
		return nil, errors.New("the run_list is empty")
	}
	modules := make(map[string]string)
	for _, c := range l.Cookbooks {
		if c.Rego == nil {
			continue
		}
		if c.Identifier != Identifier(*c.Rego) {
			return nil, fmt.Errorf("the identifier of the cookbook %s is not the SHA-256 of its rego", c.Name)
		}
		modules[moduleName(c.Name)] = *c.Rego
	}
	policy := &adminpb.Policy{Modules: modules}
	seen := make(map[Recipe]bool)
	for _, r := range l.RunList {
		if _, ok := modules[moduleName(r.Cookbook)]; !ok {
			return nil, fmt.Errorf("%s does not resolve: cookbook_locks has no module for %s in a field rego", r, r.Cookbook)
		}
		if !seen[r] {
			seen[r] = true
			policy.Rules = append(policy.Rules, r.rule())
		}
	}
	return policy, nil
}

func moduleName(cookbook string) string { return cookbook + ".rego" }

// rule asks data.C.R, in which C may have points.
func (r Recipe) rule() *adminpb.PolicyRule {
	return &adminpb.PolicyRule{
		RuleId: r.Cookbook + "::" + r.Name,
		Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: strings.ReplaceAll(r.Cookbook, ".", "/") + "/" + r.Name}},
	}
}

// format is what the library is told of documents.
type format struct {
	// trust takes any revision_id, as Chef's server does.
	trust bool
}

// Content implements [admin.LockFormat].
func (f format) Content(document []byte) (*adminpb.Policy, error) {
	lock, err := Parse(document)
	if err != nil {
		return nil, fmt.Errorf("reading a stored lock: %w", err)
	}
	policy, err := lock.Policy()
	if err != nil {
		return &adminpb.Policy{}, nil
	}
	return policy, nil
}

// Admit implements [admin.LockFormat]: a server must compute the revision_id of a new
// lock and refuse a wrong one (RFC-042).
func (f format) Admit(given admin.Lock) error {
	if f.trust {
		return nil
	}
	lock, err := Parse(given.Document)
	if err != nil {
		return err
	}
	if computed := lock.ComputeRevisionID(); computed != lock.RevisionID {
		return invalid(fmt.Sprintf("Field 'revision_id' invalid : %s does not match %s, the hash of the document",
			lock.RevisionID, computed))
	}
	return nil
}

// enforcement tells, for people and scripts, what sidecars do with a lock.
func enforcement(lock admin.Lock) string {
	if lock.Document == nil {
		if len(lock.Content.GetRules()) == 0 {
			return "no-op; the policy has no rules"
		}
		return "enforced"
	}
	parsed, err := Parse(lock.Document)
	if err == nil {
		_, err = parsed.Policy()
	}
	if err != nil {
		return "no-op; " + err.Error()
	}
	return "enforced"
}
