package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	wirepb "understudy/authz/rehearsal/wire/v1"
)

// ErrForm says that a payload is not what its kind has.
var ErrForm = errors.New("rehearsal: the payload is not what its kind has")

const (
	// maxDepth bounds the nesting of values.
	maxDepth = 10_100
	// messagesPerLevel is how many messages there are for each level of a value, an object at most.
	messagesPerLevel = 3
)

// unmarshal reads a message that has no field which it does not know.
func unmarshal(b []byte, m proto.Message) error {
	err := proto.UnmarshalOptions{RecursionLimit: messagesPerLevel * (maxDepth + 2)}.Unmarshal(b, m)
	if err != nil || len(m.ProtoReflect().GetUnknown()) > 0 {
		return ErrForm
	}
	return nil
}

// valueMessage returns a value in the types of encoding/json, with numbers as json.Number, that is nested in so
// many others. The error is that of one which the other side would not take.
func valueMessage(value any, depth int) (*wirepb.Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	}
	switch v := value.(type) {
	case nil:
		return &wirepb.Value{}, nil
	case bool:
		return &wirepb.Value{Kind: &wirepb.Value_Boolean{Boolean: v}}, nil
	case string:
		return &wirepb.Value{Kind: &wirepb.Value_Text{Text: []byte(v)}}, nil
	case json.Number:
		return &wirepb.Value{Kind: &wirepb.Value_Number{Number: []byte(v)}}, nil
	case []any:
		list := &wirepb.Value_List{}
		for _, element := range v {
			m, err := valueMessage(element, depth+1)
			if err != nil {
				return nil, err
			}
			list.Elements = append(list.Elements, m)
		}
		return &wirepb.Value{Kind: &wirepb.Value_List_{List: list}}, nil
	case map[string]any:
		object := &wirepb.Value_Object{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			m, err := valueMessage(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			object.Members = append(object.Members, &wirepb.Value_Member{Name: []byte(name), Value: m})
		}
		return &wirepb.Value{Kind: &wirepb.Value_Object_{Object: object}}, nil
	}
	return nil, fmt.Errorf("it has a value of the type %T, which is none of JSON", value)
}

// valueOf returns the value of a message that is nested in so many others.
func valueOf(m *wirepb.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, ErrForm
	}
	var err error
	switch v := m.GetKind().(type) {
	case *wirepb.Value_Boolean:
		return v.Boolean, nil
	case *wirepb.Value_Text:
		return string(v.Text), nil
	case *wirepb.Value_Number:
		return json.Number(v.Number), nil
	case *wirepb.Value_List_:
		out := make([]any, len(v.List.GetElements()))
		for i, element := range v.List.GetElements() {
			if out[i], err = valueOf(element, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *wirepb.Value_Object_:
		out := make(map[string]any, len(v.Object.GetMembers()))
		for _, member := range v.Object.GetMembers() {
			if out[string(member.GetName())], err = valueOf(member.GetValue(), depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, nil
}
