// Package resourcefile reads a policy or an experiment as people write it: YAML or JSON,
// with modules that are files of their own. A mistake is named by its field and its line.
//
// YAML is turned into JSON node by node, so that the server sees what the user wrote: no
// number is rounded, and a date stays a text. What YAML allows and a policy cannot keep is
// refused here: a key that is there twice, a number that is not exact, an alias that
// expands without end.
//
// The API checks the rest. Its errors have the path of a field, which this package turns
// back into a line of the file.
package resourcefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"understudy/admin/content"
	"understudy/cmd/understudy/command"
)

// Resource is a policy or an experiment as a user wrote it, in YAML or JSON.
type Resource struct {
	// text is the file.
	text []byte
	// Encoded is what it says, as JSON, with the modules that it names as files.
	Encoded []byte
	// ParentRevision is the revision from which a policy was made, or the beginning of its ID, by the field
	// parentRevision. It is for who applies the file, and no field of the policy; empty if it is not named.
	ParentRevision string
	// From is what a mistake in it is blamed on, such as a flag.
	From string
}

// errEmpty is the error of a file without a document.
var errEmpty = errors.New("it is empty; it has a policy or an experiment, as `understudy get` shows it")

// byteOrderMark begins the files of some editors.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Read reads a file. Its errors name the field and the line.
//
// JSON is YAML too, and is not parsed as such: it is kept byte for byte.
func Read(text []byte, read func(name string) ([]byte, error)) (*Resource, error) {
	r := &Resource{text: bytes.TrimPrefix(text, byteOrderMark)}
	if json.Valid(r.text) {
		r.Encoded = r.text
	} else if err := r.readYAML(); err != nil {
		return nil, err
	}
	if kind := kindOf(r.Encoded); kind != "an object" {
		return nil, fmt.Errorf("line 1: it is %s; a policy or an experiment is an object, as `understudy get` shows it", kind)
	}
	var inexact *content.InexactNumber
	if err := content.CheckExact("", r.Encoded); errors.As(err, &inexact) {
		return nil, r.at(inexact.Path, inexact)
	}
	if err := r.readParentRevision(); err != nil {
		return nil, err
	}
	return r, r.readModules(read)
}

// readParentRevision takes the field parentRevision out of a policy.
func (r *Resource) readParentRevision() error {
	const name, snakeCase = "parentRevision", "parent_revision"
	if !bytes.Contains(r.Encoded, []byte(name)) && !bytes.Contains(r.Encoded, []byte(snakeCase)) || r.Has("policy") {
		return nil
	}
	return r.Change(func(document map[string]any) error {
		for _, field := range []string{name, snakeCase} {
			value, there := document[field]
			text, isText := value.(string)
			switch {
			case !there:
				continue
			case !isText || text == "":
				return r.at(field, errors.New("it is the ID of a revision, or its beginning, such as a0ee1ccd"))
			case r.ParentRevision != "":
				return r.at(field, errors.New("the revision is named twice"))
			}
			r.ParentRevision = text
			delete(document, field)
		}
		return nil
	})
}

// readYAML turns the file into JSON.
func (r *Resource) readYAML() error {
	node, err := yamlDocument(r.text)
	if err != nil {
		return err
	}
	// The parser rounds what is above 64 bits, so numbers are looked at before it decodes.
	if err := checkNumbers("", node); err != nil {
		return err
	}
	r.Encoded, err = yamlToJSON(node, len(r.text))
	return err
}

// kindOf names the kind of a JSON text.
func kindOf(text []byte) string {
	switch text = bytes.TrimSpace(text); text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 'n':
		return "nothing"
	}
	return "a number or a truth value"
}

// FromFolder reads the modules that a file names, relative to its own folder. They are
// plain files: what a name leads to that blocks or has no end is refused.
func FromFolder(dir string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no plain file", path)
		}
		return command.ReadFile(path, nil)
	}
}

// readModules replaces the text of modules like @policy.rego by that of the file,
// in a policy or in the policy of an experiment.
func (r *Resource) readModules(read func(name string) ([]byte, error)) error {
	if !bytes.Contains(r.Encoded, []byte(`"@`)) {
		return nil
	}
	return r.Change(func(document map[string]any) error {
		path := "modules"
		if policy, ok := document["policy"].(map[string]any); ok {
			document, path = policy, "policy.modules"
		}
		modules, _ := document["modules"].(map[string]any)
		for name, value := range modules {
			text, _ := value.(string)
			if len(text) < 2 || text[0] != '@' {
				continue
			}
			content, err := read(text[1:])
			if err != nil {
				return r.at(joined(path, name), fmt.Errorf("the module cannot be read: %w", err))
			}
			modules[name] = string(content)
		}
		return nil
	})
}

// Change changes what the resource says. Numbers stay as they are written.
//
// It decodes the whole document, so it is for files that people write and not for large
// data.
func (r *Resource) Change(change func(map[string]any) error) error {
	decoder := json.NewDecoder(bytes.NewReader(r.Encoded))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return err
	}
	if err := change(document); err != nil {
		return err
	}
	encoded, err := json.Marshal(document)
	if err == nil {
		r.Encoded = encoded
	}
	return err
}

var (
	// The two forms of protojson's errors that name a place. It has no typed errors; a
	// text that does not match stays as it is, and only the line is missing then.
	unknownField = regexp.MustCompile(`unknown field ("[^"]*")`)
	placeInJSON  = regexp.MustCompile(`^proto:[\s\x{a0}]*(?:syntax error )?\(line (\d+):(\d+)\):\s*`)
)

// Decode reads the resource as a message. hint is what is meant to be where a field is
// that the message does not have.
func (r *Resource) Decode(m proto.Message, hint string) error {
	err := protojson.Unmarshal(r.Encoded, m)
	if err == nil {
		return nil
	}
	path, reason := "", err.Error()
	if place := placeInJSON.FindStringSubmatch(reason); place != nil {
		reason = reason[len(place[0]):]
		path = pathAt(r.Encoded, place[1], place[2])
	}
	if field := unknownField.FindStringSubmatch(reason); field != nil {
		return r.atLine(path, fmt.Errorf("%s has no field %s; %s", parentOf(path), field[1], hint))
	}
	return r.at(path, errors.New(reason))
}

// Has reports whether the resource has a field.
func (r *Resource) Has(field string) bool {
	var document map[string]json.RawMessage
	return json.Unmarshal(r.Encoded, &document) == nil && document[field] != nil
}
