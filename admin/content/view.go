package content

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	adminpb "understudy/admin/v1"
)

// large are the fields that POLICY_VIEW_BASIC leaves out.
var large = map[protoreflect.FullName]bool{
	"understudy.admin.v1.Policy.modules":                        true,
	"understudy.admin.v1.Policy.data":                           true,
	"understudy.admin.v1.PolicyRevision.report":                 true,
	"understudy.admin.v1.CommitPolicyExperimentMetadata.report": true,
}

// Large reports whether POLICY_VIEW_BASIC leaves a field out.
func Large(field protoreflect.FullName) bool { return large[field] }

// Basic returns a resource, or an operation with what it holds, as POLICY_VIEW_BASIC has it
// (AIP-157). What is left is shared, not copied. Basic of what is basic is the same.
func Basic[M proto.Message](m M) M { return basic(m.ProtoReflect()).Interface().(M) }

func basic(m protoreflect.Message) protoreflect.Message {
	out := m.New()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case Large(f.FullName()):
		case !holdsLarge(f):
			out.Set(f, v)
		case f.IsList():
			list := out.Mutable(f).List()
			for i := range v.List().Len() {
				list.Append(protoreflect.ValueOfMessage(basic(v.List().Get(i).Message())))
			}
		default:
			out.Set(f, protoreflect.ValueOfMessage(basicField(v.Message())))
		}
		return true
	})
	out.SetUnknown(m.GetUnknown())
	return out
}

// holdsLarge reports whether a large field may be in that of another message.
func holdsLarge(f protoreflect.FieldDescriptor) bool {
	if f.Message() == nil || f.IsMap() {
		return false
	}
	name := f.Message().FullName()
	return name == policyName || name == anyName
}

var (
	policyName = (&adminpb.Policy{}).ProtoReflect().Descriptor().FullName()
	anyName    = (&anypb.Any{}).ProtoReflect().Descriptor().FullName()
)

// basicField is basic of a message, and of what is packed in an Any. What cannot be unpacked
// stays as it is: nobody could show it either.
func basicField(m protoreflect.Message) protoreflect.Message {
	packed, ok := m.Interface().(*anypb.Any)
	if !ok {
		return basic(m)
	}
	inside, err := packed.UnmarshalNew()
	if err != nil {
		return m
	}
	again, err := anypb.New(basic(inside.ProtoReflect()).Interface())
	if err != nil {
		return m
	}
	return again.ProtoReflect()
}
