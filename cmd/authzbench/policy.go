package main

import (
	"embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
)

//go:embed policies/*.rego
var policyFiles embed.FS

// policySpec is a policy as every server gets it. Its JSON is also the file from which
// the stock server reads it; what has no place in JSON is for the generator.
type policySpec struct {
	Name   string `json:"name"`
	Module string `json:"module"`
	// More :: file name → text of the modules next to Module, which experiments leave as
	// they are.
	More map[string]string `json:"more,omitempty"`
	Data map[string]any    `json:"data"`
	// Candidate is what an experiment changes: a text of the module, and what stands
	// there instead, with %d for the last digit of the experiment's number.
	Candidate [2]string `json:"-"`
	// Algorithm is how the tokens of its traffic are signed, and Verifies says that it
	// looks at the signature.
	Algorithm algorithm `json:"-"`
	Verifies  bool      `json:"-"`
	// Claims says that Envoy verifies the tokens and sends what they say as metadata.
	Claims bool `json:"-"`
}

// policyNames are the policies in the order of the report.
var policyNames = []string{"prefix", "rbac", "claims", "hs256", "rs256", "large", "list", "areas", "packages", "tenants", "owner", "quickstart", "hours"}

// newPolicy reads a policy and makes its data. The keys are those that sign the
// traffic: policies that verify tokens have the matching secret or public key in their
// data.
func newPolicy(name string, k *keys) (policySpec, error) {
	module, err := policyFiles.ReadFile("policies/" + name + ".rego")
	if err != nil {
		return policySpec{}, unknownPolicy(name)
	}
	p := policySpec{Name: name, Module: string(module), Data: map[string]any{}, Algorithm: rs256, Candidate: candidates[name]}
	switch name {
	case "rbac":
		p.Data["permissions"] = permissions()
	case "claims":
		p.Claims = true
		p.Data["permissions"] = permissions()
	case "quickstart":
		p.Algorithm, p.Verifies = hs256, true
		p.Data["secret"] = k.secret
	case "hs256":
		p.Algorithm, p.Verifies = hs256, true
		p.Data["permissions"], p.Data["secret"] = permissions(), k.secret
	case "rs256":
		p.Verifies = true
		p.Data["permissions"] = permissions()
		if p.Data["certificate"], err = k.publicPEM(); err != nil {
			return policySpec{}, err
		}
	case "large":
		p.Data["members"], p.Data["rules"] = members(), rules()
	case "list":
		p.Data["accounts"], p.Data["rules"] = accounts(), roleRules()
	case "packages":
		p.More = areaModules()
	case "tenants":
		p.Data["tenants"], p.Data["common"] = tenants(), []any{"catalog", "search"}
	}
	return p, nil
}

func unknownPolicy(name string) error {
	return fmt.Errorf("--policy: there is no %q; there are %s", name, strings.Join(policyNames, ", "))
}

// candidates :: policy → what its experiments change: a rule that really decides some
// requests otherwise, mostly those whose path ends in one digit. An experiment that
// never differs would make no records, which are most of what a preview costs.
var candidates = map[string][2]string{
	"prefix":     {`"/api/v1/search/"`, `"/api/v1/search/00000000000%d"`},
	"rbac":       {`permission.resource == input.parsed_path[2]`, "permission.resource == input.parsed_path[2]\n\tnot endswith(http.path, \"%d\")"},
	"claims":     {`permission.resource == input.parsed_path[2]`, "permission.resource == input.parsed_path[2]\n\tnot endswith(http.path, \"%d\")"},
	"hs256":      {`some role in claims.roles`, "not endswith(http.path, \"%d\")\n\tsome role in claims.roles"},
	"rs256":      {`some role in claims.roles`, "not endswith(http.path, \"%d\")\n\tsome role in claims.roles"},
	"large":      {`rule.method == http.method`, "rule.method == http.method\n\tnot endswith(http.path, \"%d\")"},
	"list":       {`rule.resource == input.parsed_path[2]`, "rule.resource == input.parsed_path[2]\n\tnot endswith(http.path, \"%d\")"},
	"areas":      {`"/api/v1/orders/"`, `"/api/v1/orders/00000000000%d"`},
	"packages":   {`data.areas.area_01.within`, "data.areas.area_01.within\n\tstartswith(http.path, \"/api/v1/orders/00000000000%d\")"},
	"tenants":    {`input.parsed_path[2] in resources`, "input.parsed_path[2] in resources\n\tnot endswith(http.path, \"%d\")"},
	"owner":      {`http.method == "GET"`, "http.method == \"GET\"\n\tnot endswith(http.path, \"%d\")"},
	"quickstart": {`now < token.payload.exp`, "now < token.payload.exp\n\tnot endswith(http_request.path, \"%d\")"},
	"hours":      {`http.method == "GET"`, "http.method == \"GET\"\n\tnot endswith(http.path, \"%d\")"},
}

// candidate returns the policy of experiment n. Up to ten of them differ from each
// other, since equal experiments could share one compiled policy and one evaluation. It
// fails if the text to be changed is not in the module, so that an edit of a policy
// cannot silently leave its experiments without a change.
func (p policySpec) candidate(n int) (policySpec, error) {
	changed := strings.Replace(p.Module, p.Candidate[0], fmt.Sprintf(p.Candidate[1], n%10), 1)
	if changed == p.Module {
		return p, fmt.Errorf("the experiments of %s change nothing", p.Name)
	}
	p.Module = changed
	return p, nil
}

// resources are the third segment of every path, /api/v1/RESOURCE/NUMBER; permissions
// and rules use them.
var resources = []string{"catalog", "orders", "prices", "stock", "reviews", "search", "refunds", "reports", "users", "invoices"}

// roleNames are the roles of users; the last, which may do everything, is the rarest
// (newUser).
var roleNames = []string{"viewer", "clerk", "admin"}

// permissions :: role → what it may do.
func permissions() map[string]any {
	grant := func(methods []any, names ...string) (out []any) {
		for _, n := range names {
			out = append(out, map[string]any{"resource": n, "methods": methods})
		}
		return out
	}
	return map[string]any{
		"viewer": grant([]any{"GET"}, "catalog", "prices", "stock", "reviews", "search"),
		"clerk":  grant([]any{"GET", "POST"}, "catalog", "orders", "prices", "stock", "refunds", "invoices"),
		"admin":  grant([]any{"GET", "POST", "DELETE"}, resources...),
	}
}

// memberCount is ten times the users of the traffic: a table has mostly entries that
// are not asked for.
const memberCount = 10_000

// members :: user → the groups it belongs to. The first are the users of the traffic.
// The seed is fixed, here and in rules, so that two runs measure the same policy.
func members() map[string]any {
	r := rand.New(rand.NewPCG(1, 2))
	out := make(map[string]any, memberCount)
	for i := range memberCount {
		out[userName(i)] = map[string]any{
			"tenant": fmt.Sprintf("tenant-%02d", r.IntN(40)),
			"groups": []any{groupName(r.IntN(groupCount)), groupName(r.IntN(groupCount))},
		}
	}
	return out
}

const (
	ruleCount  = 200
	groupCount = 30
)

// groupName has two digits, so that all groups take the same space.
func groupName(i int) string { return fmt.Sprintf("group-%02d", i) }

// rules are tried one by one by a server that has no index. Those of the traffic's
// resources are spread among others that never match, so that the average request
// passes many.
func rules() []any {
	r := rand.New(rand.NewPCG(3, 4))
	out := make([]any, ruleCount)
	for i := range out {
		prefix := fmt.Sprintf("/internal/%03d/", i)
		if i%4 == 0 {
			prefix = "/api/v1/" + resources[r.IntN(len(resources))] + "/"
		}
		var groups []any
		for range 8 {
			groups = append(groups, groupName(r.IntN(groupCount)))
		}
		out[i] = map[string]any{"method": methods[r.IntN(len(methods))], "prefix": prefix, "groups": groups}
	}
	return out
}

// accounts :: user → its roles, and whether it is suspended, which one in fifty is. The first are the users of the traffic.
func accounts() map[string]any {
	r := rand.New(rand.NewPCG(9, 10))
	out := make(map[string]any, memberCount)
	for i := range memberCount {
		roles := []any{roleNames[min(r.IntN(8)/3, 2)], fmt.Sprintf("team-%03d", r.IntN(ruleCount))}
		out[userName(i)] = map[string]any{"suspended": i%50 == 49, "roles": roles}
	}
	return out
}

// roleRules are as many rules as rules returns, each of a role. One in five is for all methods.
func roleRules() []any {
	r := rand.New(rand.NewPCG(5, 6))
	out := make([]any, ruleCount)
	for i := range out {
		role := fmt.Sprintf("team-%03d", i)
		if i%8 == 0 {
			role = roleNames[i/8%len(roleNames)]
		}
		method := methods[r.IntN(len(methods))]
		if i%5 == 0 {
			method = "*"
		}
		out[i] = map[string]any{"role": role, "resource": resources[r.IntN(len(resources))], "method": method}
	}
	return out
}

// tenants :: tenant → what it may use, and the roles that each of its requests needs.
func tenants() map[string]any {
	r := rand.New(rand.NewPCG(7, 8))
	out := make(map[string]any)
	for i := range 40 {
		names, needs := []any{}, []any{}
		for range 5 {
			names = append(names, resources[r.IntN(len(resources))])
		}
		if i%4 == 0 {
			needs = append(needs, roleNames[i/4%2])
		}
		out[fmt.Sprintf("tenant-%02d", i)] = map[string]any{"resources": names, "needs": needs}
	}
	return out
}

// modules :: file name → text of all modules.
func (p policySpec) modules() map[string]string {
	out := map[string]string{"policy.rego": p.Module}
	maps.Copy(out, p.More)
	return out
}

// areaModules are twelve packages of five prefixes each, one package a file. Those of the
// traffic's resources are spread among others that never match.
func areaModules() map[string]string {
	out := make(map[string]string)
	for i := range 12 {
		first := fmt.Sprintf("/area%02d/v0/", i)
		if i < len(resources) && i%3 != 2 {
			first = "/api/v1/" + resources[i] + "/"
		}
		var others strings.Builder
		for version := 1; version < 5; version++ {
			fmt.Fprintf(&others, ", \"/area%02d/v%d/\"", i, version)
		}
		name := fmt.Sprintf("area_%02d", i)
		out[name+".rego"] = fmt.Sprintf("package areas.%s\n\nwithin if {\n\tsome prefix in [%q%s]\n"+
			"\tstartswith(input.attributes.request.http.path, prefix)\n}\n", name, first, &others)
	}
	return out
}
