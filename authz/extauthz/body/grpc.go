package body

import (
	"encoding/binary"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Messages are the request messages of gRPC methods, by a descriptor set of the operator's. A nil
// *Messages has none. The types are dynamic: nothing is generated for services of others. It is
// immutable and safe for concurrent use.
type Messages struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// NewMessages returns the messages of unary, uncompressed gRPC calls to the services of a descriptor
// set, which has to hold all its imports.
func NewMessages(set *descriptorpb.FileDescriptorSet) (*Messages, error) {
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	return &Messages{files, dynamicpb.NewTypes(files)}, nil
}

// find returns the request message of a unary call, which is parsed to canonical protojson.
// That of a method that the set does not have is not parsed.
//
// A message that is compressed, or that Envoy sent as text, of which it replaces what is
// not UTF-8, cannot be read. It counts as truncated: a client chooses whether it
// compresses, and must not get past a policy that denies by what is in the message.
func (m *Messages) find(sent Sent) (Body, error) {
	if m == nil {
		return Body{}, nil
	}
	// A call is a POST to /package.Service/Method.
	service, method, ok := strings.Cut(strings.TrimLeft(sent.Path, "/"), "/")
	if !ok || strings.Contains(method, "/") {
		return Body{}, badRequest("The path of a gRPC request has to be a service and a method.")
	}
	request := m.request(protoreflect.FullName(service), protoreflect.Name(method))
	if sent.Bytes == "" {
		return Body{Truncated: request != nil}, nil
	}
	message, compressed, truncated, err := unframe([]byte(sent.Bytes))
	if err != nil || request == nil || compressed || truncated {
		return Body{Truncated: truncated || compressed && request != nil}, err
	}
	return Body{
		content: message,
		parse:   func(content []byte) (any, error) { return m.decode(request, content) },
		weight:  func(content []byte) int { return m.weight(content, request, maxNesting) },
	}, nil
}

// frame is the length of what stands before a gRPC message: a byte that says whether it
// is compressed, and its length as 32 bits (Length-Prefixed-Message of the gRPC
// protocol over HTTP/2).
const frame = 5

// unframe returns the first message of a gRPC body, unless it is compressed or cut off.
func unframe(body []byte) (message []byte, compressed, truncated bool, err error) {
	if len(body) < frame {
		return nil, false, false, badRequest("The body is too short for a gRPC message.")
	}
	if body[0] != 0 {
		return nil, true, false, nil
	}
	length := uint64(binary.BigEndian.Uint32(body[1:frame]))
	rest := body[frame:]
	if length > uint64(len(rest)) {
		return nil, false, true, nil
	}
	return rest[:length], false, false, nil
}

// request returns the request message of a method, or nil if there is no such
// method or its client streams.
func (m *Messages) request(service protoreflect.FullName, name protoreflect.Name) protoreflect.MessageDescriptor {
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

// decode turns a message into JSON and reads that, so that the document has the form
// that opa-envoy-plugin gives it, 64-bit integers as strings included.
func (m *Messages) decode(descriptor protoreflect.MessageDescriptor, content []byte) (any, error) {
	message := dynamicpb.NewMessage(descriptor)
	if err := (proto.UnmarshalOptions{Resolver: m.types}).Unmarshal(content, message); err != nil {
		return nil, badRequest("The body is not the message that the gRPC method takes.")
	}
	text, err := protojson.MarshalOptions{Resolver: m.types}.Marshal(message)
	if err != nil {
		return nil, badRequest("The gRPC message has a value without a form in JSON.")
	}
	value, _, err := decodeJSON(text)
	return value, err
}
