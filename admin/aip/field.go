package aip

import (
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// fieldNamed returns the field with this name, in snake_case or lowerCamelCase.
func fieldNamed(m protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := m.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return m.Fields().ByJSONName(name)
}

// behaves reports whether a field has one of these behaviours (AIP-203).
func behaves(f protoreflect.FieldDescriptor, any ...annotations.FieldBehavior) bool {
	// Descriptors that were made at run time may have other options.
	options, ok := f.Options().(*descriptorpb.FieldOptions)
	if !ok {
		return false
	}
	behaviors, _ := proto.GetExtension(options, annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	for _, b := range behaviors {
		for _, wanted := range any {
			if b == wanted {
				return true
			}
		}
	}
	return false
}

// outputOnly reports whether clients cannot write a field. An etag is theirs to
// send, but never to store (AIP-154).
func outputOnly(f protoreflect.FieldDescriptor) bool {
	return f.Name() == "etag" || behaves(f, annotations.FieldBehavior_OUTPUT_ONLY)
}

// fixed reports whether a field cannot change once it is set.
func fixed(f protoreflect.FieldDescriptor) bool {
	return behaves(f, annotations.FieldBehavior_IDENTIFIER, annotations.FieldBehavior_IMMUTABLE)
}

// isMessage reports whether a field holds one message that has fields of its own
// to a client: not a list, a map or a well-known type.
func isMessage(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && !f.IsList() && !f.IsMap() &&
		!strings.HasPrefix(string(f.Message().FullName()), "google.protobuf.")
}

// ClearOutputOnly clears what clients cannot write: output-only fields and etags,
// also in embedded messages. Such input is ignored, not refused (AIP-203).
func ClearOutputOnly(m proto.Message) { clearOutputOnly(m.ProtoReflect()) }

func clearOutputOnly(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case outputOnly(f):
			m.Clear(f)
		// AIP-203 holds for the fields of embedded messages, too: a whole policy is sent in an experiment.
		case isMessage(f):
			clearOutputOnly(v.Message())
		}
		return true
	})
}
