package author

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"understudy/cmd/understudy/command"
)

// pluginConfig is what opa-envoy-plugin is configured with, as far as it changes
// decisions. Its own names and defaults are used.
//
// Fields that do not change decisions, such as addr, are not read.
type pluginConfig struct {
	// Path is the rule that decides, with slashes.
	Path string `yaml:"path"`
	// Query is the older name of the same, such as data.envoy.authz.allow.
	Query string `yaml:"query"`
	// DryRun lets every request pass there.
	DryRun bool `yaml:"dry-run"`
	// SkipRequestBodyParse leaves parsed_body out of the input there.
	SkipRequestBodyParse bool `yaml:"skip-request-body-parse"`
	// ProtoDescriptor is the file for --grpc-descriptor-set.
	ProtoDescriptor string `yaml:"proto-descriptor"`
}

// readPluginConfig reads the plugin's part of OPA's configuration.
//
// All else that OPA is configured with, such as bundles and decision logs, is not read:
// it is no part of a policy.
func readPluginConfig(file string) (*pluginConfig, error) {
	content, err := command.ReadSmallFile(file)
	if err != nil {
		return nil, err
	}
	var config struct {
		Plugins map[string]yaml.Node
	}
	// OPA takes YAML and JSON, and so does this.
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	node, ok := config.Plugins["envoy_ext_authz_grpc"]
	if !ok {
		return nil, errors.New("it has no plugins.envoy_ext_authz_grpc; name the rule with --rule")
	}
	plugin := &pluginConfig{}
	if err := node.Decode(plugin); err != nil {
		return nil, fmt.Errorf("plugins.envoy_ext_authz_grpc: %w", err)
	}
	return plugin, nil
}

// rule returns the path of the rule that the plugin asks.
//
// The plugin refuses both path and query; here path is the one that counts.
func (p *pluginConfig) rule() string {
	switch {
	case p.Path != "":
		return rulePath(p.Path)
	case p.Query != "":
		return rulePath(p.Query)
	}
	return usualDecision
}

// notes are about settings that change decisions there and are no part of a policy here.
//
// A note is on standard error, and no reason to fail: each says what is different here and what to do.
func (p *pluginConfig) notes() []string {
	var out []string
	if p.DryRun {
		out = append(out, "dry-run is true: OPA enforces nothing. This policy denies once it is live. "+
			"To go on watching, import it as an experiment (--id web/next) or run 'understudy serve --observe'.")
	}
	if p.SkipRequestBodyParse {
		out = append(out, "skip-request-body-parse is true: OPA's input has no parsed_body and no truncated_body. "+
			"Here both are always there; without with_request_body in Envoy's filter parsed_body is null.")
	}
	if p.ProtoDescriptor != "" {
		out = append(out, "proto-descriptor is set: give the same file to 'understudy serve --grpc-descriptor-set'.")
	}
	return out
}
