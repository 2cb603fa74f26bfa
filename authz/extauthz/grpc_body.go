package extauthz

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// methods knows the request messages of gRPC methods. A nil *methods knows none.
type methods struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

func newMethods(set *descriptorpb.FileDescriptorSet) (*methods, error) {
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	return &methods{files, dynamicpb.NewTypes(files)}, nil
}

// parse returns the request message of a unary call, as canonical protojson. The
// value is nil if the method is unknown or the message is compressed.
func (m *methods) parse(body []byte, path []string) (value any, truncated bool, err error) {
	if m == nil || len(body) == 0 {
		return nil, false, nil
	}
	// A call is a POST to /package.Service/Method.
	if len(path) != 2 {
		return nil, false, badRequest("The path of a gRPC request has to be a service and a method.")
	}
	message, known, truncated, err := unframe(body)
	if err != nil || truncated || !known {
		return nil, truncated, err
	}
	request := m.request(protoreflect.FullName(path[0]), protoreflect.Name(path[1]))
	if request == nil {
		return nil, false, nil
	}
	value, err = m.decode(request, message)
	return value, false, err
}

// frame is the length of what stands before a gRPC message: a byte that says
// whether it is compressed, and its length as 32 bits.
const frame = 5

// unframe returns the first message of a gRPC body. It is not known if it is
// compressed.
func unframe(body []byte) (message []byte, known, truncated bool, err error) {
	if len(body) < frame {
		return nil, false, false, badRequest("The body is too short for a gRPC message.")
	}
	if body[0] != 0 {
		return nil, false, false, nil
	}
	length := uint64(binary.BigEndian.Uint32(body[1:frame]))
	rest := body[frame:]
	if length > uint64(len(rest)) {
		return nil, false, true, nil
	}
	return rest[:length], true, false, nil
}

// request returns the request message of a method, or nil if there is no such
// method or its client streams.
func (m *methods) request(service protoreflect.FullName, name protoreflect.Name) protoreflect.MessageDescriptor {
	found, err := m.files.FindDescriptorByName(service)
	if err != nil {
		return nil
	}
	descriptor, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	method := descriptor.Methods().ByName(name)
	if method == nil || method.IsStreamingClient() {
		return nil
	}
	return method.Input()
}

func (m *methods) decode(descriptor protoreflect.MessageDescriptor, content []byte) (any, error) {
	message := dynamicpb.NewMessage(descriptor)
	if err := (proto.UnmarshalOptions{Resolver: m.types}).Unmarshal(content, message); err != nil {
		return nil, badRequest("The body is not the message that the gRPC method takes.")
	}
	text, err := protojson.MarshalOptions{Resolver: m.types}.Marshal(message)
	if err != nil {
		return nil, badRequest("The gRPC message has a value without a form in JSON.")
	}
	return parseJSON(text)
}
