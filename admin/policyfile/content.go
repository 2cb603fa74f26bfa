package policyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

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

// moduleName is the name of a module in the policy. Errors of the compiler show it, so it
// is the name that the author knows with the ending of a file.
func moduleName(cookbook string) string { return cookbook + ".rego" }

// rule asks data.C.R, in which C may have points.
func (r Recipe) rule() *adminpb.PolicyRule {
	return &adminpb.PolicyRule{
		RuleId: r.Cookbook + "::" + r.Name,
		Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: strings.ReplaceAll(r.Cookbook, ".", "/") + "/" + r.Name}},
	}
}
