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

// find returns the request message of a unary call, which is parsed to canonical
// protojson. It is not parsed if the method is unknown or the message is compressed.
func (m *methods) find(content []byte, path []string) (body, error) {
	if m == nil || len(content) == 0 {
		return body{}, nil
	}
	// A call is a POST to /package.Service/Method.
	if len(path) != 2 {
		return body{}, badRequest("The path of a gRPC request has to be a service and a method.")
	}
	message, known, truncated, err := unframe(content)
	if err != nil || truncated || !known {
		return body{truncated: truncated}, err
	}
	request := m.request(protoreflect.FullName(path[0]), protoreflect.Name(path[1]))
	if request == nil {
		return body{}, nil
	}
	return body{
		content: message,
		parse:   func(content []byte) (any, error) { return m.decode(request, content) },
		weight:  func(content []byte) int { return m.weight(content, request, maxNesting) },
	}, nil
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
