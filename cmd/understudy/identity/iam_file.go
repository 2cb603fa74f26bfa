package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"understudy/admin/access"
)

// declared is what a file says of one resource: all of its bindings.
//
// A resource without roles is there with no bindings: that takes all roles there away.
type declared struct {
	resource string
	// bindings are sorted, each once.
	bindings []bound
}

// bound is a member with a role.
// As JSON it is an element of "granted" and "taken".
type bound struct {
	Role   access.Role `json:"role"`
	Member string      `json:"member"`
}

// compareBound orders bindings by role and member.
func compareBound(a, b bound) int {
	// The least powerful role first; one that is not known before all, since its index is -1.
	if by := slices.Index(access.RolesByPower(), a.Role) - slices.Index(access.RolesByPower(), b.Role); by != 0 {
		return by
	}
	return strings.Compare(string(a.Role)+" "+a.Member, string(b.Role)+" "+b.Member)
}

// readDeclared reads a file of bindings: resources with roles with members. Errors name the
// line.
//
// The nodes of YAML are read, and not a map: a map has lost the lines, and its decoder takes the
// last of two keys that are the same, which would silently take roles away.
func readDeclared(text []byte) ([]declared, error) {
	root, err := onlyDocument(text)
	if err != nil {
		return nil, err
	}
	var all []declared
	err = eachEntry(root, "it has resource names, such as projects/shop/locations/prod", func(key, value *yaml.Node) error {
		if err := checkBoundResource(key.Value); err != nil {
			return at(key, err)
		}
		bindings, err := readRoles(value)
		all = append(all, declared{key.Value, bindings})
		return err
	})
	if err == nil && len(all) == 0 {
		err = errors.New("it names no resource, such as projects/shop/locations/prod")
	}
	return all, err
}

// readRoles reads the roles of one resource; nothing means that nobody has any.
//
// A member that is listed twice for a role has it once.
func readRoles(node *yaml.Node) (bindings []bound, err error) {
	if isNull(node) {
		return nil, nil
	}
	err = eachEntry(node, "it has roles, such as viewer", func(key, value *yaml.Node) error {
		role, err := parseRole(key.Value)
		if err != nil {
			return at(key, err)
		}
		members, err := readMembers(value)
		for _, member := range members {
			bindings = append(bindings, bound{role, member})
		}
		return err
	})
	slices.SortFunc(bindings, compareBound)
	return slices.Compact(bindings), err
}

// readMembers reads the members of one role.
//
// It takes texts alone: YAML reads an unquoted yes as a bool and 0123 as a number, and a member that
// was changed by that would be somebody else.
func readMembers(node *yaml.Node) (members []string, err error) {
	node = resolved(node)
	if isNull(node) {
		return nil, nil
	}
	if node.Kind != yaml.SequenceNode {
		return nil, at(node, errors.New("a role has a list of members, such as [token:ci]"))
	}
	for _, element := range node.Content {
		element = resolved(element)
		if element.Kind != yaml.ScalarNode || element.ShortTag() != "!!str" {
			return nil, at(element, errors.New("a member is a text, such as token:ci"))
		}
		if err := access.CheckMember(element.Value); err != nil {
			return nil, at(element, fmt.Errorf("the member: %w", err))
		}
		members = append(members, element.Value)
	}
	return members, nil
}

// checkBoundResource returns an error for a name that has no bindings. The rest of it is for the
// server to check.
//
// It refuses what would otherwise be an error of the server after others were changed. A `-`, which
// stands for all locations in lists, names no resource here.
func checkBoundResource(name string) error {
	segments := strings.Split(name, "/")
	// collections are the levels that have bindings, from the top.
	collections := []string{"projects", "locations", "policies"}
	if len(segments)%2 != 0 || len(segments) > 2*len(collections) {
		return errors.New("it is the whole name of a project, a location or a policy, such as projects/shop/locations/prod/policies/web")
	}
	for i, segment := range segments {
		if i%2 == 0 && segment != collections[i/2] || segment == "" || segment == "-" {
			return errors.New("it is the whole name of a project, a location or a policy, such as projects/shop/locations/prod/policies/web")
		}
	}
	return nil
}

// onlyDocument parses a file of YAML or JSON with one document.
func onlyDocument(text []byte) (*yaml.Node, error) {
	// Lines of errors are those of the text as it is indented then, which is close enough for JSON.
	if json.Valid(text) && bytes.ContainsRune(text, '\t') {
		// YAML takes no tabs before a line; JSON does.
		var spaced bytes.Buffer
		_ = json.Indent(&spaced, text, "", "  ")
		text = spaced.Bytes()
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	// Two documents that both name a resource would each take away what the other one grants.
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return document.Content[0], nil
}

// eachEntry calls do with each entry of a mapping. What is none is an error that says what is
// meant, and so is a key that is there twice.
//
// It stops at the first error, which names the line of the key or of what is below it.
func eachEntry(node *yaml.Node, meant string, do func(key, value *yaml.Node) error) error {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return at(node, errors.New(meant))
	}
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := resolved(node.Content[i]), node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return at(key, errors.New(meant))
		}
		if seen[key.Value] {
			return at(key, fmt.Errorf("%q is there twice", key.Value))
		}
		seen[key.Value] = true
		if err := do(key, value); err != nil {
			return err
		}
	}
	return nil
}

// resolved is a node, or what it is an alias of.
//
// Aliases are followed one step, which is all there is: YAML has no alias of an alias. They are not
// expanded, so a small file cannot become a large one.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// isNull reports whether there is nothing behind a key.
//
// `viewer:` with nothing behind it is how people empty a role.
func isNull(node *yaml.Node) bool {
	node = resolved(node)
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// at is an error with its line.
func at(node *yaml.Node, err error) error { return fmt.Errorf("line %d: %w", node.Line, err) }
