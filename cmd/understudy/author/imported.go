package author

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego/bundle"
)

// imported is a policy that was made of a bundle.
//
// It is written as YAML or JSON, and sent, from the same document: what was printed and applied later
// is what --apply would have applied at once.
type imported struct {
	// from is where the bundle was read, id what the policy is to be, and file where
	// it is written, if known.
	from, id, file string
	// rules are the paths of what decides, at least one.
	rules []string
	// bundle is where modules and data come from.
	bundle *bundle.Bundle
}

// compile holds the policy to what the server will hold it to.
//
// That is more than whether it compiles: a number that is not kept exactly is refused
// here and not when it is applied.
func (d *imported) compile(ctx context.Context) error {
	encoded, err := json.Marshal(d.policy())
	if err != nil {
		return fmt.Errorf("%s: %w", d.from, err)
	}
	// A double has 53 bits: a policy that compares IDs of 64 bits would compare others.
	if err := content.CheckExact("", encoded); err != nil {
		return fmt.Errorf("%s: %w", d.from, err)
	}
	policy := &adminpb.Policy{}
	if err := protojson.Unmarshal(encoded, policy); err != nil {
		return fmt.Errorf("%s: %w", d.from, err)
	}
	if _, err := authz.Compile(ctx, policy); err != nil {
		return explain(d.from, err)
	}
	return nil
}

// importedPolicy is the policy in the order in which it is read best.
//
// protojson sorts fields by number and maps not at all; here both are in a stable order.
type importedPolicy struct {
	// Rules come first, since they say what the policy does.
	Rules []importedRule `json:"rules" yaml:"rules"`
	// Modules are Rego v1, translated if need be.
	Modules map[string]string `json:"modules,omitempty" yaml:"modules,omitempty"`
	// Data is nested by folders, as OPA has it.
	Data map[string]any `json:"data,omitempty" yaml:"data,omitempty"`
}

// importedRule is one filter of the chain.
type importedRule struct {
	// Rego is the only filter that a bundle can be made of: the path of a rule.
	Rego struct {
		Path string `json:"path" yaml:"path"`
	} `json:"rego" yaml:"rego"`
}

// policy returns the document without what is around it in an experiment.
func (d *imported) policy() importedPolicy {
	p := importedPolicy{Modules: d.bundle.Modules, Data: d.bundle.Data}
	for _, path := range d.rules {
		var rule importedRule
		rule.Rego.Path = path
		p.Rules = append(p.Rules, rule)
	}
	return p
}

// document is the policy, or the experiment with it.
//
// An experiment is known by its ID, which has a slash.
func (d *imported) document() any {
	if !strings.Contains(d.id, "/") {
		return d.policy()
	}
	return map[string]any{"policy": d.policy()}
}

// resource is the document as `apply` sends it.
func (d *imported) resource() ([]byte, error) {
	content, err := json.Marshal(d.document())
	return printable(content), err
}

// json is the file for --output json.
func (d *imported) json() ([]byte, error) {
	content, err := json.MarshalIndent(d.document(), "", "  ")
	return append(printable(content), '\n'), err
}

// printable escapes the characters that JSON allows in a string and YAML, which
// `apply` reads, does not.
//
// JSON has them all in strings, so an escape is the same text.
func printable(content []byte) []byte {
	var out []byte
	for _, r := range string(content) {
		if r >= ' ' && !unicode.IsPrint(r) && r <= 0xffff {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// yaml is the file for people: a policy is mostly Rego, which is read as a block of text.
// The server reads the same from it as from the JSON; a test tries odd texts.
//
// YAML is a superset of JSON but for the characters that printable escapes.
func (d *imported) yaml() ([]byte, error) {
	content, err := d.resource()
	if err != nil {
		return nil, err
	}
	// Through JSON, so that numbers stay as they were written.
	var node yaml.Node
	if err := yaml.Unmarshal(content, &node); err != nil {
		return nil, err
	}
	readable(&node)
	var out strings.Builder
	d.head(&out)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return nil, err
	}
	return []byte(out.String()), encoder.Close()
}

// head says where the file comes from and what to do with it.
func (d *imported) head(w io.Writer) {
	id := cmp.Or(d.id, "NAME")
	revision := ""
	if d.bundle.Revision != "" {
		revision = fmt.Sprintf(", revision %q", d.bundle.Revision)
	}
	// The texts are quoted: a revision of a bundle that has a line break must not end the comment.
	fmt.Fprintf(w, "# Imported from %q%s. Apply it with:\n#   understudy apply %s -f %s\n", d.from, revision, id, cmp.Or(d.file, "FILE"))
}

// readable lays JSON out as people write YAML: blocks, text of several lines as
// such, keys and words without quotes where that is the same.
func readable(node *yaml.Node) {
	node.Style = 0
	// A block keeps a module as it was written. It cannot hold a carriage return, which a YAML parser
	// would read as a line break.
	if node.Kind == yaml.ScalarNode && node.Tag == "!!str" && strings.ContainsAny(node.Value, "\n\r") {
		node.Style = yaml.LiteralStyle
		if !plainText(node.Value) {
			node.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, child := range node.Content {
		readable(child)
	}
}

// plainText reports whether a text of several lines is the same as a block of
// YAML: it neither begins with a space of some kind nor has odd characters.
func plainText(text string) bool {
	return !strings.ContainsAny(text[:1], " \t\r\n") && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r)
	})
}
