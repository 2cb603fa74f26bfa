package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

func newApply() *cobra.Command {
	var file string
	var validateOnly bool
	cmd, _ := changing("apply NAME -f FILE", "Create or replace a policy or an experiment from a file",
		`The file is the resource as YAML or JSON, as the API has it. A module whose text
begins with @ is read from the file that it names, relative to the first one.
`+nameHelp,
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			if file == "" {
				return usage(errors.New("--file is required: it has the resource as YAML or JSON; - is standard input"))
			}
			return c.apply(ctx, c.name(args[0]), file, validateOnly)
		})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the resource as YAML or JSON; - is standard input (required)")
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "check everything and change nothing")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	return cmd
}

// apply replaces what clients own of the resource, and creates it if need be.
func (c *client) apply(ctx context.Context, name, file string, validateOnly bool) error {
	content, err := readFile(file, c.in)
	if err != nil {
		return usage(fmt.Errorf("--file: %w", err))
	}
	resource, err := readResource(content, filepath.Dir(file))
	if err != nil {
		return usage(fmt.Errorf("--file: %w", err))
	}
	return c.applyResource(ctx, name, "--file", resource, validateOnly)
}

// applyResource is apply of a resource as JSON. from is what a mistake in it is
// blamed on.
func (c *client) applyResource(ctx context.Context, name, from string, resource []byte, validateOnly bool) error {
	everything := &fieldmaskpb.FieldMask{Paths: []string{"*"}}
	if isExperiment(name) {
		e := &adminpb.PolicyExperiment{}
		if err := protojson.Unmarshal(resource, e); err != nil {
			return usage(fmt.Errorf("%s: it is no experiment: %w", from, misfit(err, "what an experiment tries stands below policy")))
		}
		e.Name = name
		if e.Policy != nil && e.Policy.Name == "" {
			e.Policy.Name = policyOf(name)
		}
		op, err := c.policies.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
			PolicyExperiment: e, UpdateMask: everything, AllowMissing: true, ValidateOnly: validateOnly,
		})
		return c.finish(ctx, op, err)
	}
	p := &adminpb.Policy{}
	if err := protojson.Unmarshal(resource, p); err != nil {
		return usage(fmt.Errorf("%s: it is no policy: %w", from, misfit(err, "an experiment is named POLICY/EXPERIMENT, such as web/strict")))
	}
	p.Name = name
	op, err := c.policies.UpdatePolicy(ctx, &adminpb.UpdatePolicyRequest{
		Policy: p, UpdateMask: everything, AllowMissing: true, ValidateOnly: validateOnly,
	})
	return c.finish(ctx, op, err)
}

var unknownField = regexp.MustCompile(`unknown field ("[^"]*")`)

// misfit tells why JSON is not a resource. The places that its parser names are those
// of JSON that nobody has seen, where the file is YAML.
func misfit(err error, hint string) error {
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("it has no field %s; %s", m[1], hint)
	}
	return err
}

func policyOf(experiment string) string {
	return filepath.ToSlash(filepath.Dir(filepath.Dir(experiment)))
}

// readResource turns a resource in YAML, of which JSON is a part, into JSON, with
// the modules that are named as files read from dir.
func readResource(content []byte, dir string) ([]byte, error) {
	return resourceJSON(content, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }, nil)
}

// resourceJSON is readResource with any source of modules, and a last change to
// the document.
func resourceJSON(
	content []byte, read func(name string) ([]byte, error), change func(map[string]any),
) ([]byte, error) {
	var node yaml.Node
	var document map[string]any
	if err := yaml.Unmarshal(content, &node); err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	if err := checkNumbers("", &node); err != nil {
		return nil, err
	}
	if err := node.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	if err := readModules(document, read); err != nil {
		return nil, err
	}
	if change != nil {
		change(document)
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	// YAML writes numbers in ways that JSON does not have, such as 0x20_0000.
	return encoded, admin.CheckExact("", encoded)
}

// readModules replaces the text of modules like @policy.rego by that of the file,
// in a policy or in the policy of an experiment.
func readModules(document map[string]any, read func(name string) ([]byte, error)) error {
	if policy, ok := document["policy"].(map[string]any); ok {
		return readModules(policy, read)
	}
	modules, _ := document["modules"].(map[string]any)
	for name, value := range modules {
		text, _ := value.(string)
		if len(text) < 2 || text[0] != '@' {
			continue
		}
		content, err := read(text[1:])
		if err != nil {
			return fmt.Errorf("the module %s: %w", name, err)
		}
		modules[name] = string(content)
	}
	return nil
}
