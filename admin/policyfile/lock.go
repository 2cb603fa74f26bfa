package policyfile

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// Lock is a Policyfile lock (RFC-042), as far as it means something here. The
// document has more, which is kept as it is.
type Lock struct {
	// RevisionID is the one that the document claims.
	RevisionID string
	Name       string
	RunList    []Recipe
	// NamedRunLists and Cookbooks are in the order of the document.
	NamedRunLists []NamedRunList
	Cookbooks     []Cookbook
	// DefaultAttributes and OverrideAttributes are nil if there are none.
	DefaultAttributes  json.RawMessage
	OverrideAttributes json.RawMessage
}

// Recipe is an item of a run list.
type Recipe struct{ Cookbook, Name string }

// String is the recipe in the form that run lists have, which the revision_id is computed
// from.
func (r Recipe) String() string { return "recipe[" + r.Cookbook + "::" + r.Name + "]" }

// NamedRunList is another run list of a lock. Nothing here runs it.
type NamedRunList struct {
	Name  string
	Items []Recipe
}

// Cookbook is an entry of cookbook_locks.
type Cookbook struct {
	Name       string
	Version    string
	Identifier string
	// Rego is the text of the module; nil if the cookbook has none.
	Rego *string
}

// The grammars are anchored to the whole text: $ alone would allow a line break.
var (
	nameGrammar       = regexp.MustCompile(`\A[A-Za-z0-9_.:-]{1,255}\z`)
	cookbookGrammar   = regexp.MustCompile(`\A[A-Za-z0-9_.-]{1,255}\z`)
	recipeGrammar     = regexp.MustCompile(`\Arecipe\[([A-Za-z0-9_.-]+)::([A-Za-z0-9_.-]+)\]\z`)
	versionGrammar    = regexp.MustCompile(`\A[0-9]+(\.[0-9]+){1,2}\z`)
	identifierGrammar = nameGrammar
)

// validName reports whether a text can name a policy, a group or a revision. Those
// that mean something else in a path or in the other API cannot.
func validName(name string) bool {
	return nameGrammar.MatchString(name) && name != "." && name != ".." && name != "-"
}

// validRevision is validName of a revision. The other API has an alias latest.
func validRevision(id string) bool { return validName(id) && id != "latest" }

// Parse reads and checks a lock document. The error names the first mistake in the
// words of Chef's server.
func Parse(document []byte) (*Lock, error) {
	if !wellFormed(document) {
		return nil, invalid("invalid JSON")
	}
	fields, err := members(document)
	if err != nil {
		return nil, invalid("invalid JSON : " + err.Error())
	}
	given := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		given[f.name] = f.value
	}
	l := &Lock{}
	// In the order in which Chef's server looks.
	for _, field := range []struct {
		name     string
		required bool
		read     func(l *Lock, value json.RawMessage) error
	}{
		{"revision_id", true, (*Lock).readRevisionID},
		{"name", true, (*Lock).readName},
		{"run_list", true, (*Lock).readRunList},
		{"named_run_lists", false, (*Lock).readNamedRunLists},
		{"cookbook_locks", true, (*Lock).readCookbooks},
		{"default_attributes", false, (*Lock).readDefaultAttributes},
		{"override_attributes", false, (*Lock).readOverrideAttributes},
	} {
		value, present := given[field.name]
		if !present && field.required {
			return nil, invalid("Field '" + field.name + "' missing")
		}
		if !present {
			continue
		}
		if err := field.read(l, value); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// readRevisionID checks the form alone. Whether it is the hash of the document is checked
// when the lock is new (format.Admit).
func (l *Lock) readRevisionID(value json.RawMessage) error {
	id, ok := text(value)
	if !ok || !validRevision(id) {
		return invalidField("revision_id")
	}
	l.RevisionID = id
	return nil
}

// readName holds the name to what can be an ID of the other API.
func (l *Lock) readName(value json.RawMessage) error {
	name, ok := text(value)
	if !ok || !validName(name) {
		return invalidField("name")
	}
	l.Name = name
	return nil
}

// readRunList reads the list that decides: its order is that of the rules.
func (l *Lock) readRunList(value json.RawMessage) (err error) {
	l.RunList, err = runList("run_list", value)
	return err
}

// runList reads a list of recipes in fully qualified form; roles are none.
func runList(field string, value json.RawMessage) ([]Recipe, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil || items == nil {
		return nil, invalid("Field '" + field + "' is not a valid run list")
	}
	out := make([]Recipe, len(items))
	for i, item := range items {
		s, ok := text(item)
		parts := recipeGrammar.FindStringSubmatch(s)
		if !ok || parts == nil {
			return nil, invalid("Field '" + field + "' is not a valid run list")
		}
		out[i] = Recipe{parts[1], parts[2]}
	}
	return out, nil
}

// readNamedRunLists checks lists that Chef's server does not: they count for the
// revision_id, so they have to have the form that it is computed from.
func (l *Lock) readNamedRunLists(value json.RawMessage) error {
	const field = "named_run_lists"
	lists, err := members(value)
	if err != nil {
		return invalidField(field)
	}
	for _, m := range lists {
		if !nameGrammar.MatchString(m.name) {
			return invalidField(field)
		}
		items, err := runList(field, m.value)
		if err != nil {
			return err
		}
		l.NamedRunLists = append(l.NamedRunLists, NamedRunList{m.name, items})
	}
	return nil
}

// readCookbooks keeps the order of the document, so that of two mistakes the first is
// named.
func (l *Lock) readCookbooks(value json.RawMessage) error {
	const field = "cookbook_locks"
	cookbooks, err := members(value)
	if err != nil {
		return invalidField(field)
	}
	for _, m := range cookbooks {
		if !cookbookGrammar.MatchString(m.name) {
			return invalidField(field)
		}
		c, err := readCookbook(m)
		if err != nil {
			return err
		}
		l.Cookbooks = append(l.Cookbooks, c)
	}
	return nil
}

// readCookbook reads what Chef's server requires of an entry, and the module. All other
// fields, such as scm_info, are kept with the document and mean nothing here.
func readCookbook(m member) (Cookbook, error) {
	fields, err := members(m.value)
	if err != nil {
		return Cookbook{}, invalidField("cookbook_locks")
	}
	given := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		given[f.name] = f.value
	}
	c := Cookbook{Name: m.name}
	for _, field := range []struct {
		name    string
		grammar *regexp.Regexp
		problem string
		to      *string
	}{
		{"identifier", identifierGrammar, "invalid", &c.Identifier},
		{"version", versionGrammar, "is not a valid version", &c.Version},
	} {
		value, present := given[field.name]
		if !present {
			return c, invalid("Field '" + field.name + "' missing")
		}
		s, ok := text(value)
		if !ok || !field.grammar.MatchString(s) {
			return c, invalid("Field '" + field.name + "' " + field.problem)
		}
		*field.to = s
	}
	if value, present := given["dotted_decimal_identifier"]; present {
		if s, ok := text(value); !ok || !versionGrammar.MatchString(s) {
			return c, invalid("Field 'dotted_decimal_identifier' is not a valid version")
		}
	}
	// Whatever else it may be is somebody's own field.
	if module, ok := text(given["rego"]); ok {
		c.Rego = &module
	}
	return c, nil
}

// readDefaultAttributes keeps the text: attributes count for the revision_id with their
// numbers as written.
func (l *Lock) readDefaultAttributes(value json.RawMessage) (err error) {
	l.DefaultAttributes, err = attributes("default_attributes", value)
	return err
}

// readOverrideAttributes is readDefaultAttributes of the others.
func (l *Lock) readOverrideAttributes(value json.RawMessage) (err error) {
	l.OverrideAttributes, err = attributes("override_attributes", value)
	return err
}

// attributes is an object as it was written; null counts as none.
func attributes(field string, value json.RawMessage) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		return nil, invalidField(field)
	}
	if object == nil { // null
		return nil, nil
	}
	return value, nil
}

// invalid is the error of a document or a body, in the words of Chef's server.
func invalid(text string) error { return &Problem{Status: 400, Texts: []string{text}} }

// invalidField names a field whose value has the wrong type or form; the text has no
// more, for clients compare it.
func invalidField(field string) error { return invalid(fmt.Sprintf("Field '%s' invalid", field)) }
