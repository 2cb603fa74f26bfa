package resourcefile

import (
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"

	"understudy/admin/content"
)

// yamlNumber is a number as YAML 1.2 writes it in decimals (section 10.3.2).
var yamlNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// checkNumbers refuses the numbers in a YAML file that a policy would not keep, as they
// are written: the parser rounds what is above 64 bits, and takes 1e400 for a text. path
// is that of the node. An alias is checked where it is defined.
func checkNumbers(path string, node *yaml.Node) error {
	switch node.Kind {
	case yaml.ScalarNode:
		return checkNumber(path, node)
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if err := checkNumbers(joined(path, node.Content[i].Value), node.Content[i+1]); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for i, element := range node.Content {
			if err := checkNumbers(fmt.Sprintf("%s[%d]", path, i), element); err != nil {
				return err
			}
		}
	case yaml.DocumentNode:
		for _, root := range node.Content {
			if err := checkNumbers(path, root); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNumber checks one value. A number between quotes is a text, and is not looked at.
func checkNumber(path string, node *yaml.Node) error {
	number := node.Style == 0 || node.ShortTag() == "!!int" || node.ShortTag() == "!!float"
	if !number || !yamlNumber.MatchString(node.Value) || content.IsExact(node.Value) {
		return nil
	}
	return fmt.Errorf("line %d: %w", node.Line, &content.InexactNumber{Path: path, Number: node.Value})
}
