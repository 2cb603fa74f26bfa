package aip

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Mask says which fields an update touches. It is immutable.
//
// Paths of a mask may overlap. They are applied in their order, and each makes the same of a field,
// so that the order does not matter.
type Mask struct {
	// all is the mask `*`: the message becomes what is sent, as with PUT (AIP-134).
	all   bool
	paths []maskPath
}

// maskPath leads from a message to a field of it, or to the value of a map's key.
type maskPath struct {
	// text is the path in snake_case, for errors.
	text   string
	fields []protoreflect.FieldDescriptor
	// key is the map key at the end of the path, if there is one.
	key *string
}

// ParseMask parses the paths of a field mask for a message: `*` alone for all
// fields, or names in snake_case or lowerCamelCase joined by dots, the last of
// which may be a map's key, in backticks where it has characters of its own. The
// error is an *Error.
func ParseMask(paths []string, m protoreflect.MessageDescriptor) (Mask, error) {
	var mask Mask
	for _, path := range paths {
		if path == "*" {
			// AIP-161: it stands alone.
			if len(paths) > 1 {
				return Mask{}, errorf("`*` stands for all fields and cannot be combined with others.")
			}
			return Mask{all: true}, nil
		}
		parsed, err := parsePath(path, m)
		if err != nil {
			return Mask{}, err
		}
		// AIP-161: a path that names no field is an error, never ignored.
		mask.paths = append(mask.paths, parsed)
	}
	return mask, nil
}

// PopulatedMask is the mask of an update that gives none: all fields that are
// populated in the body, of embedded messages those that are populated in them
// (AIP-134).
func PopulatedMask(body proto.Message) Mask {
	return Mask{paths: populated(nil, "", body.ProtoReflect())}
}

// populated returns the paths of a message that is at the path prefix, written text, of the body.
func populated(prefix []protoreflect.FieldDescriptor, text string, m protoreflect.Message) []maskPath {
	var out []maskPath
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		// A copy: siblings would write into the same array.
		path := append(append([]protoreflect.FieldDescriptor{}, prefix...), f)
		name := strings.TrimPrefix(text+"."+string(f.Name()), ".")
		if isMessage(f) {
			out = append(out, populated(path, name, v.Message())...)
		} else {
			out = append(out, maskPath{text: name, fields: path})
		}
		return true
	})
	return out
}

// All reports whether the mask is `*`.
func (m Mask) All() bool { return m.all }

// Has reports whether the mask touches a field of the message as a whole.
func (m Mask) Has(name string) bool {
	for _, p := range m.paths {
		// `labels.team` touches one key of labels, and not labels as a whole.
		if len(p.fields) == 1 && p.key == nil && string(p.fields[0].Name()) == name {
			return true
		}
	}
	return m.all
}

// parsePath finds the fields of a path in a message. m is nil once the path is at a field that has
// no fields of its own.
func parsePath(path string, m protoreflect.MessageDescriptor) (maskPath, error) {
	segments, err := splitPath(path)
	if err != nil {
		return maskPath{}, err
	}
	out := maskPath{text: path}
	for i, s := range segments {
		if m == nil {
			return maskPath{}, &Error{Path: path, text: "The path `" + Shown(path) + "` goes on behind a field that has no fields of its own."}
		}
		f := fieldNamed(m, s)
		if f == nil {
			return maskPath{}, &Error{Path: path, text: "The path `" + Shown(path) + "` names no field of " + string(m.Name()) + "."}
		}
		out.fields = append(out.fields, f)
		rest := segments[i+1:]
		// AIP-161: a map's key may end a path, and nothing goes on behind it.
		if f.IsMap() && len(rest) == 1 && f.MapKey().Kind() == protoreflect.StringKind {
			out.key = &rest[0]
			return out, nil
		}
		// AIP-161 leaves out a part of a list in an update: which element it is changes with each write.
		if f.IsList() && len(rest) > 0 {
			return maskPath{}, &Error{Path: path, text: "The path `" + Shown(path) +
				"` goes into a repeated field, which can only be replaced as a whole."}
		}
		m = nil
		if isMessage(f) {
			m = f.Message()
		}
	}
	return out, nil
}

// splitPath splits a path at its dots, but for those in backticks.
func splitPath(path string) ([]string, error) {
	var out []string
	// Each turn reads one segment, and the dot behind it.
	for rest := path; ; {
		segment, quoted := strings.CutPrefix(rest, "`")
		var end int
		if quoted {
			end = strings.IndexByte(segment, '`')
			if end < 0 {
				return nil, &Error{Path: path, text: "The path " + Shown(path) + " has a backtick without its end."}
			}
			out, rest = append(out, segment[:end]), segment[end+1:]
		} else {
			if end = strings.IndexByte(segment, '.'); end < 0 {
				end = len(segment)
			}
			out, rest = append(out, segment[:end]), segment[end:]
		}
		if out[len(out)-1] == "" {
			return nil, &Error{Path: path, text: "The path `" + Shown(path) + "` has an empty part."}
		}
		if rest == "" {
			return out, nil
		}
		if rest[0] != '.' {
			return nil, &Error{Path: path, text: "The path " + Shown(path) + " has text behind a backtick that is no dot."}
		}
		rest = rest[1:]
	}
}

// Apply changes dst in the fields of the mask to what they are in src; a field
// that src lacks is cleared. Output-only fields are left alone. A field that is an
// identifier or immutable keeps its value: src may lack it or have the same one,
// and another one is an *Error with Immutable set. Nothing of src is shared.
func (m Mask) Apply(dst, src proto.Message) error {
	// dst shares nothing with src afterwards: set takes over what it gets.
	from := proto.Clone(src).ProtoReflect()
	if m.all {
		return replaceFields(dst.ProtoReflect(), from, "")
	}
	for _, p := range m.paths {
		if err := p.apply(dst.ProtoReflect(), from); err != nil {
			return err
		}
	}
	return nil
}

// apply changes dst at one path. Messages on the way are made only if src has something for them.
func (p maskPath) apply(dst, src protoreflect.Message) error {
	last := len(p.fields) - 1
	for _, f := range p.fields[:last] {
		if outputOnly(f) {
			return nil
		}
		src = src.Get(f).Message()
		if !dst.Has(f) && !src.IsValid() {
			return nil
		}
		dst = dst.Mutable(f).Message()
	}
	if p.key != nil {
		p.applyKey(dst, src)
		return nil
	}
	return replaceField(dst, src, p.fields[last], p.text)
}

// applyKey changes one key of a map.
func (p maskPath) applyKey(dst, src protoreflect.Message) {
	f := p.fields[len(p.fields)-1]
	if outputOnly(f) {
		return
	}
	key := protoreflect.ValueOfString(*p.key).MapKey()
	if from := src.Get(f).Map(); from.IsValid() && from.Has(key) {
		dst.Mutable(f).Map().Set(key, from.Get(key))
		return
	}
	if dst.Has(f) {
		dst.Mutable(f).Map().Clear(key)
	}
}

// replaceFields makes every field of dst that clients own what it is in src.
func replaceFields(dst, src protoreflect.Message, prefix string) error {
	fields := dst.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if err := replaceField(dst, src, f, strings.TrimPrefix(prefix+"."+string(f.Name()), ".")); err != nil {
			return err
		}
	}
	return nil
}

// replaceField makes one field of dst what it is in src. Clients send back what they have read, so
// output-only fields and present values of fixed ones are no mistake (AIP-203).
func replaceField(dst, src protoreflect.Message, f protoreflect.FieldDescriptor, path string) error {
	switch {
	case outputOnly(f):
		return nil
	case fixed(f):
		if src.Has(f) && !src.Get(f).Equal(dst.Get(f)) {
			return &Error{Path: path, Immutable: true, text: "The field cannot change. Leave it out, or send its present value."}
		}
		return nil
	// Field by field, so that output-only fields below it survive. In a oneof another member may be
	// set, so there the message is replaced as a whole.
	case isMessage(f) && f.ContainingOneof() == nil && src.Has(f) && dst.Has(f):
		return replaceFields(dst.Mutable(f).Message(), src.Get(f).Message(), path)
	case src.Has(f):
		dst.Set(f, src.Get(f))
		if isMessage(f) {
			clearOutputOnly(dst.Mutable(f).Message())
		}
	default:
		dst.Clear(f)
	}
	return nil
}
