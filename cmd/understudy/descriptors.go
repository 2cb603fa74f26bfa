package main

import (
	"errors"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"understudy/authz/extauthz"
	"understudy/cmd/understudy/command"
)

// descriptorHelp says how to make what --grpc-descriptor-set names.
const descriptorHelp = "make it with `protoc --include_imports --descriptor_set_out=FILE …` or `buf build -o FILE`"

// grpcBodies is how the bodies of gRPC requests are parsed: the content of a descriptor set, for
// the rehearsal process, and what is made of it for this one. The zero value parses none.
type grpcBodies struct {
	content []byte
	option  extauthz.Option
}

// readGRPCBodies reads a FileDescriptorSet, by which the bodies of gRPC requests are
// parsed.
func readGRPCBodies(file string) (grpcBodies, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return grpcBodies{}, command.Usage(fmt.Errorf("--grpc-descriptor-set: %w; %s", err, descriptorHelp))
	}
	option, err := descriptorOption(content)
	if err != nil {
		return grpcBodies{}, command.Usage(fmt.Errorf("--grpc-descriptor-set %s: %w; %s", file, err, descriptorHelp))
	}
	return grpcBodies{content, option}, nil
}

// descriptorOption parses the content of the file. Without any file in it the set would
// silently leave all bodies unparsed, so that is an error.
func descriptorOption(content []byte) (extauthz.Option, error) {
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(content, set); err != nil {
		return nil, fmt.Errorf("it is no descriptor set: %w", err)
	}
	if len(set.File) == 0 {
		return nil, errors.New("there is no file in it")
	}
	return extauthz.WithDescriptorSet(set)
}
