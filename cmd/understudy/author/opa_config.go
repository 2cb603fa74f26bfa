package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"understudy/cmd/understudy/command"
	"understudy/rego/bundle"
)

// Keys of OPA's configuration that an import reads.
const (
	keyPlugin        = "plugins.envoy_ext_authz_grpc"
	keyPath          = keyPlugin + ".path"
	keyQuery         = keyPlugin + ".query"
	keyDryRun        = keyPlugin + ".dry-run"
	keySkipBodyParse = keyPlugin + ".skip-request-body-parse"
	keyDescriptor    = keyPlugin + ".proto-descriptor"
	keyMask          = "decision_logs.mask_decision"
	keyDrop          = "decision_logs.drop_decision"
	keyDiscovery     = "discovery"
	keyBundles       = "bundles"
)

// carriedOver are the settings that become a part of the policy.
//
// --ignore leaves one of them out only by its full name. A section such as decision_logs does not
// include them, so notes can be silenced without losing a mask.
var carriedOver = []string{keyPath, keyQuery, keyMask, keyDrop}

// foldedKeys are the keys of sections that OPA decodes into structs. encoding/json, which OPA uses,
// accepts them in upper and lower case.
var foldedKeys = map[string][]string{
	"":              {"plugins", "decision_logs", keyDiscovery, keyBundles},
	"decision_logs": {"mask_decision", "drop_decision"},
	keyPlugin:       {"path", "query", "dry-run", "skip-request-body-parse", "proto-descriptor"},
}

// opaConfig is OPA's configuration, without the settings that --ignore leaves out.
//
// Names and defaults are OPA's.
type opaConfig struct {
	// settings :: full name, such as decision_logs.console → value. A list is one value, and so is an
	// empty section. Values may be secrets: messages contain none but names of rules.
	settings map[string]any
	// hasPlugin reports whether there is plugins.envoy_ext_authz_grpc, which may be empty.
	hasPlugin bool
	// bundles is the number of bundles that OPA loads.
	bundles int
	// more are notes that depend on the bundle.
	more []string
}

// readOPAConfig reads a configuration in YAML or JSON, as OPA does. Each of ignored has to be a
// setting or a section of it.
func readOPAConfig(file string, ignored []string) (*opaConfig, error) {
	content, err := command.ReadSmallFile(file)
	if err != nil {
		return nil, fmt.Errorf("--opa-config: %w", err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("--opa-config: it is neither YAML nor JSON: %w", err)
	}
	c := &opaConfig{settings: make(map[string]any)}
	if err := c.add("", document); err != nil {
		return nil, fmt.Errorf("--opa-config: %w", err)
	}
	for _, key := range ignored {
		if !c.ignore(key) {
			return nil, fmt.Errorf("--ignore %s: the configuration has no such setting", key)
		}
	}
	return c, nil
}

// add adds the settings of a section, whose full name is empty for the whole configuration.
func (c *opaConfig) add(section string, value any) error {
	object, isObject := asSection(value)
	switch {
	case section == keyPlugin && (isObject || value == nil):
		c.hasPlugin = true
	case section == keyBundles:
		c.bundles = len(object)
	}
	if !isObject || len(object) == 0 {
		// An empty section may still turn something on, as status does. The plugin is noted above.
		if value != nil && section != "" && (!isObject || section != keyPlugin) {
			c.settings[section] = value
		}
		return nil
	}
	return c.addSection(section, object)
}

// addSection adds what is in a section, by the names that OPA has.
func (c *opaConfig) addSection(section string, object map[string]any) error {
	seen := make(map[string]bool, len(object))
	for key, child := range object {
		for _, known := range foldedKeys[section] {
			if strings.EqualFold(key, known) {
				key = known
			}
		}
		name := strings.TrimPrefix(section+"."+key, ".")
		if seen[key] {
			return fmt.Errorf("%s is there twice, in upper and in lower case", name)
		}
		seen[key] = true
		if err := c.add(name, child); err != nil {
			return err
		}
	}
	return nil
}

// asSection returns a mapping with its keys as text. YAML has mappings with keys of other types.
func asSection(value any) (map[string]any, bool) {
	switch value := value.(type) {
	case map[string]any:
		return value, true
	case map[any]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			out[fmt.Sprint(key)] = child
		}
		return out, true
	}
	return nil, false
}

// ignore removes a setting, or all settings of a section but those that are carried over. It reports
// whether there was anything to remove.
func (c *opaConfig) ignore(key string) bool {
	before := len(c.settings)
	maps.DeleteFunc(c.settings, func(name string, _ any) bool {
		return name == key || within(name, key) && !slices.Contains(carriedOver, name)
	})
	return len(c.settings) < before
}

// within reports whether a setting is in a section.
func within(name, section string) bool { return strings.HasPrefix(name, section+".") }

// hasSection reports whether a section has settings.
func (c *opaConfig) hasSection(section string) bool {
	for name := range c.settings {
		if name == section || within(name, section) {
			return true
		}
	}
	return false
}

// text returns a setting that is a text; ok is false if it is not there.
func (c *opaConfig) text(key string) (text string, ok bool, err error) {
	value, ok := c.settings[key]
	if !ok {
		return "", false, nil
	}
	text, isText := value.(string)
	if !isText {
		return "", false, invalidSetting(key, "it has to be a text")
	}
	return text, true, nil
}

// boolean returns a setting that is true or false, which it is if it is not there.
func (c *opaConfig) boolean(key string) (bool, error) {
	switch value := c.settings[key].(type) {
	case nil:
		return false, nil
	case bool:
		return value, nil
	case string:
		// OPA's parser reads YAML 1.1, which has more words for both.
		switch strings.ToLower(value) {
		case "y", "yes", "on":
			return true, nil
		case "n", "no", "off":
			return false, nil
		}
	}
	return false, invalidSetting(key, "it has to be true or false")
}

// invalidSetting is the error of a setting that OPA would refuse.
func invalidSetting(key, rule string) error {
	dot := strings.LastIndexByte(key, '.')
	return fmt.Errorf("%s: %s: %s", key[:dot], key[dot+1:], rule)
}

// rule returns the path of the rule that the plugin asks, and the key that names it, empty for the
// default.
//
// The plugin refuses both path and query; here path is the one that counts.
func (c *opaConfig) rule() (path, key string, err error) {
	for _, key := range []string{keyPath, keyQuery} {
		text, _, err := c.text(key)
		if err != nil {
			return "", "", err
		}
		if text != "" {
			return rulePath(text), key, nil
		}
	}
	return usualDecision, "", nil
}

// chooseRules returns the rules of --rule if there are any, otherwise the rule of the plugin.
func (c *opaConfig) chooseRules(flags []string) ([]string, error) {
	path, key, err := c.rule()
	switch {
	case err != nil:
		return nil, fmt.Errorf("--opa-config: %w", err)
	case len(flags) > 0 && key != "":
		return nil, fmt.Errorf("--rule: %s of --opa-config names the rule. Leave out --rule, or pass --ignore %s", key, key)
	case len(flags) > 0:
		return flags, nil
	case !c.hasPlugin:
		return nil, errors.New("--opa-config: it has no " + keyPlugin + "; name the rule with --rule")
	}
	return []string{path}, nil
}

// carryInto adds to the bundle what the configuration names, and returns notes about all else. The
// errors are those of forwardLogRules.
func (c *opaConfig) carryInto(ctx context.Context, b *bundle.Bundle) ([]string, error) {
	if err := c.forwardLogRules(ctx, b); err != nil {
		return nil, err
	}
	return c.notes()
}

// notes are about settings that are no part of the policy.
//
// They are printed on standard error, and are no reason to fail. First come those that change
// decisions, each with what is different here and what to do.
func (c *opaConfig) notes() ([]string, error) {
	var out []string
	dryRun, err := c.boolean(keyDryRun)
	if err != nil {
		return nil, err
	}
	if dryRun {
		out = append(out, keyDryRun+" is true: OPA enforces nothing. This policy denies once it is live. "+
			"To go on watching, import it as an experiment (--id web/next) or run 'understudy serve --observe'.")
	}
	skips, err := c.boolean(keySkipBodyParse)
	if err != nil {
		return nil, err
	}
	if skips {
		out = append(out, keySkipBodyParse+" is true: OPA's input has no parsed_body and no truncated_body. "+
			"Here both are always there, in the decision log too; without with_request_body in Envoy's filter parsed_body is null.")
	}
	if _, ok := c.settings[keyDescriptor]; ok {
		out = append(out, keyDescriptor+" is set: give the same file to 'understudy serve --grpc-descriptor-set'.")
	}
	if c.bundles > 1 && c.hasSection(keyBundles) {
		out = append(out, fmt.Sprintf("%s has %d bundles, which OPA loads together. The policy has the modules of the imported one only: "+
			"rules of the others are not in it, package system.log included.", keyBundles, c.bundles))
	}
	out = append(out, c.more...)
	if list := c.leftOut(); list != "" {
		out = append(out, list)
	}
	return out, nil
}

// counterparts :: setting or section → what has its effect here. It is not in the policy.
var counterparts = map[string]string{
	keyPlugin + ".addr":                   "use 'understudy serve --authz-addr'",
	keyPlugin + ".grpc-max-recv-msg-size": "use 'understudy serve --authz-max-message-size'",
	keyPlugin + ".enable-reflection":      "always on",
	"decision_logs.console":               "use 'understudy serve --decision-log console'",
	"decision_logs.service":               "use 'understudy serve --decision-log otel'",
	"default_decision":                    "use 'understudy import --rule'",
	"distributed_tracing.type":            "set OTEL_EXPORTER_OTLP_PROTOCOL for 'understudy serve'",
	"default_authorization_decision":      "use 'understudy iam'",
	"labels":                              "use 'understudy serve --decision-log-label'",
	"keys":                                "use 'understudy import --verification-key'",
	"distributed_tracing.address":         "set OTEL_EXPORTER_OTLP_ENDPOINT for 'understudy serve'",
}

// leftOut lists all other settings by name, each with its counterpart, if it has one.
func (c *opaConfig) leftOut() string {
	noted := append([]string{keyDryRun, keySkipBodyParse, keyDescriptor}, carriedOver...)
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		if !slices.Contains(noted, name) {
			fmt.Fprintf(&out, "\n  %s: %s", name, cmp.Or(counterpart(name), "no counterpart"))
		}
	}
	if out.Len() == 0 {
		return ""
	}
	return "OPA's configuration has settings that are not in the policy:" + out.String()
}

// counterpart returns what has the effect of a setting here; empty if nothing has.
func counterpart(name string) string {
	for key, text := range counterparts {
		if name == key || within(name, key) {
			return text
		}
	}
	return ""
}
