package author

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"understudy/authz"
	"understudy/rego"
	"understudy/rego/bundle"
)

// logPackage is the package whose rules mask and drop shape the decision log. OPA's configuration may
// name other rules; here the names are fixed.
const logPackage = "system/log"

// logRule is a rule for the decision log that OPA's configuration names.
type logRule struct {
	// key is the setting, and own the rule that is evaluated here.
	key, own string
	// configured is the path of the rule that OPA evaluates; empty if the setting is not there.
	configured string
	// hides says what OPA hides by the rule, for messages.
	hides string
}

// logRules returns both rules for the decision log, that of masks first.
func (c *opaConfig) logRules() ([]logRule, error) {
	out := []logRule{
		{key: keyMask, own: authz.LogMaskPath, hides: "fields that OPA masks would be in the decision log in clear"},
		{key: keyDrop, own: authz.LogDropPath, hides: "events that OPA leaves out would be in the decision log"},
	}
	for i := range out {
		text, ok, err := c.text(out[i].key)
		if err != nil {
			return nil, err
		}
		if ok {
			// OPA takes the path with and without the first slash, and splits it at the others.
			out[i].configured = strings.TrimPrefix(text, "/")
		}
		if ok && out[i].configured == "" {
			return nil, invalidSetting(out[i].key, "it has to name a rule, such as /"+out[i].own)
		}
	}
	return out, nil
}

// hiddenDataError is the error of settings that hide data in OPA and would not hide it here.
type hiddenDataError struct{ problems []string }

func (e *hiddenDataError) Error() string { return strings.Join(e.problems, "\n  ") }

// forwardLogRules adds a module to the bundle that forwards system.log to the rules which the
// configuration names. The error is a *hiddenDataError, that of a setting or that of the modules,
// a *rego.CompileError.
func (c *opaConfig) forwardLogRules(ctx context.Context, b *bundle.Bundle) error {
	rules, err := c.logRules()
	if err != nil {
		return err
	}
	program, err := compileLogRules(ctx, b, rules)
	if err != nil {
		return err
	}
	owners, err := logPackageOwners(ctx, b)
	if err != nil {
		return err
	}
	forwarded, refused := c.selectForwarded(rules, program, owners)
	masks := program.Has(authz.LogMaskPath) || slices.ContainsFunc(forwarded, func(r logRule) bool { return r.own == authz.LogMaskPath })
	if err := c.checkHidden(refused, masks); err != nil {
		return err
	}
	addForwarding(b, forwarded)
	return nil
}

// selectForwarded returns the rules that a module can forward to, and the problems of the others. A
// rule that has the name which is evaluated here needs no forwarding.
func (c *opaConfig) selectForwarded(rules []logRule, program *rego.Program, owners []string) ([]logRule, *hiddenDataError) {
	taken := len(owners) > 0 || program.Has(authz.LogMaskPath) || program.Has(authz.LogDropPath)
	refused := &hiddenDataError{}
	var forwarded []logRule
	for _, rule := range rules {
		switch {
		case rule.configured == "":
		case rule.configured == rule.own:
			if !program.Has(rule.own) {
				c.more = append(c.more, fmt.Sprintf("%s names %s, and the bundle has no such rule: it hides nothing.", rule.key, rule.own))
			}
		case taken:
			refused.problems = append(refused.problems, rule.taken(owners))
		case !program.Has(rule.configured):
			refused.problems = append(refused.problems, rule.missing())
		default:
			forwarded = append(forwarded, rule)
		}
	}
	return forwarded, refused
}

// checkHidden adds the problems of the settings that no module carries over, and returns all of them;
// nil if there are none. masks reports whether the policy masks fields.
func (c *opaConfig) checkHidden(refused *hiddenDataError, masks bool) error {
	skips, err := c.boolean(keySkipBodyParse)
	if err != nil {
		return err
	}
	// A mask that was written for OPA then names the raw body only.
	if skips && masks {
		refused.problems = append(refused.problems, fmt.Sprintf("%s is true, and the policy masks fields of the decision log. OPA's log has no parsed_body, and the log here has: "+
			"where the rule masks /input/attributes/request/http/body, let it mask /input/parsed_body too, and pass --ignore %s", keySkipBodyParse, keySkipBodyParse))
	}
	if c.hasSection(keyDiscovery) {
		refused.problems = append(refused.problems, fmt.Sprintf("%s: OPA downloads the rest of its configuration, which may name rules that hide fields of the decision log. "+
			"Import with the active configuration, which is the field result of GET /v1/config of a running OPA, and pass --ignore %s", keyDiscovery, keyDiscovery))
	}
	if len(refused.problems) > 0 {
		return refused
	}
	return nil
}

// compileLogRules compiles the bundle, to find out which rules there are. Names that lead nowhere are
// no error.
func compileLogRules(ctx context.Context, b *bundle.Bundle, rules []logRule) (*rego.Program, error) {
	source := rego.Source{Modules: b.Modules, Data: b.Data}
	for _, rule := range rules {
		source.Optional = append(source.Optional, rule.own)
		if rule.configured != "" {
			source.Optional = append(source.Optional, rule.configured)
		}
	}
	return rego.Compile(ctx, source)
}

// logPackageOwners returns the modules of package system.log, in order.
func logPackageOwners(ctx context.Context, b *bundle.Bundle) ([]string, error) {
	packages, err := rego.Packages(ctx, b.Modules)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(packages, func(_, name string) bool { return name != logPackage })
	return slices.Sorted(maps.Keys(packages)), nil
}

// taken is the problem of a rule that cannot be forwarded to, because the bundle has the package.
func (r logRule) taken(owners []string) string {
	where := ""
	if len(owners) > 0 {
		where = " (" + strings.Join(owners, ", ") + ")"
	}
	return fmt.Sprintf("%s names %s, and the bundle has package system.log already%s, whose rules are the ones that are evaluated here: %s. "+
		"Write `%s` into that package, in place of its own rule if it has one, and pass --ignore %s", r.key, r.configured, where, r.hides, r.forwarding(), r.key)
}

// missing is the problem of a rule that is not in the bundle.
func (r logRule) missing() string {
	return fmt.Sprintf("%s names %s, and the bundle has no such rule: %s. Import a bundle or a folder that has the rule, "+
		"or go without it by --ignore %s", r.key, r.configured, r.hides, r.key)
}

// forwarding is the rule that has the value of the configured one.
//
// It takes the value as it is. A set of copies would lose the order of masks in an array, and a value
// that is no set would mask nothing; so it is an error, and the event loses input and result.
func (r logRule) forwarding() string {
	return path.Base(r.own) + " := " + rego.DataReference(r.configured)
}

// addForwarding adds the module, under a name that no other one has.
func addForwarding(b *bundle.Bundle, rules []logRule) {
	if len(rules) == 0 {
		return
	}
	var text strings.Builder
	text.WriteString("# Written by 'understudy import': OPA's configuration names these rules.\npackage system.log\n")
	for _, rule := range rules {
		fmt.Fprintf(&text, "\n# %s\n%s\n", rule.key, rule.forwarding())
	}
	name := "system_log.rego"
	for i := 2; b.Modules[name] != ""; i++ {
		name = fmt.Sprintf("system_log_%d.rego", i)
	}
	b.Modules[name] = text.String()
}
