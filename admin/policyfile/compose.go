package policyfile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"understudy/admin/library"
	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// lockVersion is the version of a cookbook that is a module: only its hash differs
// from that of others.
const lockVersion = "1.0.0"

// document is a lock in the order in which people read it. It has every field that
// chef-cli asks of a lock (its PolicyfileLock#build_from_lock_data and
// CookbookLock::REQUIRED_LOCK_DATA_KEYS), and also rego.
type document struct {
	RevisionID           string                      `json:"revision_id"`
	Name                 string                      `json:"name"`
	RunList              []string                    `json:"run_list"`
	IncludedPolicyLocks  []struct{}                  `json:"included_policy_locks"`
	Cookbooks            map[string]documentCookbook `json:"cookbook_locks"`
	DefaultAttributes    struct{}                    `json:"default_attributes"`
	OverrideAttributes   struct{}                    `json:"override_attributes"`
	SolutionDependencies solutionDependencies        `json:"solution_dependencies"`
}

// documentCookbook is a module as a cookbook with one version.
type documentCookbook struct {
	Version                 string `json:"version"`
	Identifier              string `json:"identifier"`
	DottedDecimalIdentifier string `json:"dotted_decimal_identifier"`
	// Source is the file of the module. The cookbook is a local one to chef-cli, so the
	// key of its cache is null.
	Source        string            `json:"source"`
	CacheKey      *string           `json:"cache_key"`
	SourceOptions map[string]string `json:"source_options"`
	Rego          string            `json:"rego"`
}

// solutionDependencies says which cookbooks the policy needs, and which these need: no
// other ones.
type solutionDependencies struct {
	Policyfile   [][2]string         `json:"Policyfile"`
	Dependencies map[string][]string `json:"dependencies"`
}

// newDocument has every field that chef-cli requires of a lock. Lists are empty and not
// null: readers of a lock go through them.
func newDocument(name string) document {
	return document{
		Name: name, RunList: []string{}, IncludedPolicyLocks: []struct{}{}, Cookbooks: map[string]documentCookbook{},
		SolutionDependencies: solutionDependencies{[][2]string{}, map[string][]string{}},
	}
}

// add adds a module as a cookbook.
func (d *document) add(name string, m module) {
	identifier := Identifier(m.text)
	d.Cookbooks[name] = documentCookbook{
		Version: lockVersion, Identifier: identifier, DottedDecimalIdentifier: dottedDecimal(identifier),
		Source: m.file, SourceOptions: map[string]string{"path": m.file}, Rego: m.text,
	}
	d.SolutionDependencies.Policyfile = append(d.SolutionDependencies.Policyfile, [2]string{name, "= " + lockVersion})
	d.SolutionDependencies.Dependencies[name+" ("+lockVersion+")"] = []string{}
}

// dottedDecimal writes the first 160 bits of an identifier as three numbers of 56, 56 and
// 48 bits: what chef-cli makes of its own identifiers, which have 160 bits, for servers
// that know versions alone.
func dottedDecimal(identifier string) string {
	var parts [3]string
	for i, digits := range []string{identifier[:14], identifier[14:28], identifier[28:40]} {
		n, _ := strconv.ParseUint(digits, 16, 64) // at most 14 digits of a SHA-256
		parts[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(parts[:], ".")
}

// module is a text of Rego, and the file that it is from.
type module struct{ file, text string }

// Compose makes a lock of modules, by file, and of the paths of the rules that
// decide, such as envoy/authz/allow, in order. A cookbook is a module, named by its
// package; further modules of the package are named by their files as well.
func Compose(ctx context.Context, name string, modules map[string]string, rules []string) ([]byte, error) {
	packages, err := rego.Packages(ctx, modules)
	if err != nil {
		return nil, err
	}
	cookbooks, err := cookbooksOf(modules, packages)
	if err != nil {
		return nil, err
	}
	d := newDocument(name)
	for _, cookbook := range slices.Sorted(maps.Keys(cookbooks)) {
		d.add(cookbook, cookbooks[cookbook])
	}
	for _, rule := range rules {
		r, err := recipeOf(rule)
		if err != nil {
			return nil, err
		}
		if _, ok := cookbooks[r.Cookbook]; !ok {
			return nil, fmt.Errorf("the rule %s is in no package of the modules: there is %s", rule,
				strings.Join(slices.Sorted(maps.Keys(cookbooks)), ", "))
		}
		d.RunList = append(d.RunList, r.String())
	}
	return d.seal()
}

// seal computes the revision_id.
func (d document) seal() ([]byte, error) {
	d.RevisionID = "0"
	draft, err := d.encode()
	if err != nil {
		return nil, err
	}
	lock, err := Parse(draft)
	if err != nil {
		return nil, err
	}
	d.RevisionID = lock.ComputeRevisionID()
	return d.encode()
}

// encode indents, for locks are kept in repositories and reviewed there, and leaves <, >
// and & in modules as they are.
func (d document) encode() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return out.Bytes(), err
}

// cookbooksOf names modules by their packages.
func cookbooksOf(modules, packages map[string]string) (map[string]module, error) {
	out := make(map[string]module, len(modules))
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		name := strings.ReplaceAll(packages[file], "/", ".")
		if _, taken := out[name]; taken || name == "" {
			name += "-" + notInNames.ReplaceAllString(strings.TrimSuffix(file, path.Ext(file)), "_")
		}
		if !cookbookGrammar.MatchString(name) {
			return nil, fmt.Errorf("%s: its package %s cannot name a cookbook, which has letters, digits and characters of _.-", file, packages[file])
		}
		if _, taken := out[name]; taken {
			return nil, fmt.Errorf("%s: another module is the cookbook %s already; rename the file", file, name)
		}
		out[name] = module{file, modules[file]}
	}
	return out, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// recipeOf turns the path of a rule into a recipe.
func recipeOf(rule string) (Recipe, error) {
	cookbook, name, _ := cutLast(rule, "/")
	r := Recipe{strings.ReplaceAll(cookbook, "/", "."), name}
	if !recipeGrammar.MatchString(r.String()) {
		return r, fmt.Errorf("the rule %s cannot be a recipe: it is like envoy/authz/allow, of letters, digits and characters of _-", rule)
	}
	return r, nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(separator):], true
}

// describe writes the lock of a revision that the other API made, of whose modules it
// is given the packages. It says what the policy says, as far as a lock can: data,
// exemptions, annotations and filters other than Rego are not in it. Its revision_id is
// that of the revision, and need not be the hash of the lock.
func describe(lock library.Lock, packages map[string]string) ([]byte, error) {
	d := newDocument(string(lock.Policy))
	d.RevisionID = string(lock.Revision)
	modules := lock.Content.GetModules()
	cookbooks, err := cookbooksOf(modules, packages)
	if err != nil {
		cookbooks = make(map[string]module, len(modules))
		for file, text := range modules {
			cookbooks[file] = module{file, text}
		}
	}
	for _, cookbook := range slices.Sorted(maps.Keys(cookbooks)) {
		name := notInNames.ReplaceAllString(cookbook, "_")
		for _, taken := d.Cookbooks[name]; taken; _, taken = d.Cookbooks[name] {
			name += "_"
		}
		d.add(name, cookbooks[cookbook])
	}
	for _, rule := range lock.Content.GetRules() {
		d.RunList = append(d.RunList, describeRule(rule).String())
	}
	return d.encode()
}

// describeRule names the recipe of a rule. A filter that is no Rego is the recipe of
// its kind, of a cookbook that no lock has.
func describeRule(rule *adminpb.PolicyRule) Recipe {
	filter := rule.GetRego()
	if filter == nil {
		m, kind := rule.ProtoReflect(), "filter"
		if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("filter")); field != nil {
			kind = string(field.Name())
		}
		return Recipe{"understudy", kind}
	}
	cookbook, name, _ := cutLast(cmp.Or(filter.GetPath(), usualRule), "/")
	return Recipe{strings.ReplaceAll(cookbook, "/", "."), name}
}

// usualRule is the rule that a Rego filter asks if it names none.
const usualRule = "envoy/authz/allow"
