// Protogen generates the Go code and the OpenAPI document of admin/v1 from
// admin.proto, and the Go code of our other protos: those of evidence, of what crosses to the
// rehearsal process, and of a sidecar's snapshot file.
//
// It needs nothing but the Go toolchain: the compiler is a Go library, the
// imports (google/api, google/longrunning, google/protobuf, google/rpc) are the
// descriptors linked into this program, and the plugins are pinned as tools in
// this module's go.mod. Run it from the root of the repository:
//
//	go -C cmd/protogen run . ../..
//
// With -descriptors it writes the compiled proto instead, with comments and
// imports, for tools that want a FileDescriptorSet: api-linter, buf, protoc.
//
// The root of the repository is understudy/ in import paths of protos: admin/v1/admin.proto
// is compiled as understudy/admin/v1/admin.proto, which is what its package says (AIP-191).
// In import paths of Go it is the module, which go.mod of the root names.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	_ "cloud.google.com/go/iam/apiv1/iampb"
	_ "cloud.google.com/go/longrunning/autogen/longrunningpb"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/api/httpbody"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// importRoot is the root of the repository in import paths of protos.
	importRoot      = "understudy/"
	adminProto      = importRoot + "admin/v1/admin.proto"
	evidenceProto   = importRoot + "authz/evidence/v1/evidence.proto"
	wireProto       = importRoot + "authz/rehearsal/wire/v1/wire.proto"
	snapshotProto   = importRoot + "authz/sidecar/v1/snapshot.proto"
	operationsProto = "google/longrunning/operations.proto"
	operationsREST  = "admin/v1/operations.yaml"
	iamProto        = "google/iam/v1/iam_policy.proto"
	iamREST         = "admin/v1/iam.yaml"
	adminPackage    = "/admin/v1;adminpb" // below the module
)

// generator is what every plugin is run with.
type generator struct {
	// root is the folder of the repository, and module the path of its Go module.
	root, module string
	// files are the compiled protos, each after its imports.
	files []*descriptorpb.FileDescriptorProto
}

// plugin is one run of a protoc plugin: a pinned tool, what it generates from and its
// parameter. A plugin is a program that reads a CodeGeneratorRequest from standard
// input and writes a CodeGeneratorResponse (google/protobuf/compiler/plugin.proto);
// protoc is not needed for it.
type plugin struct {
	tool      string
	files     []string
	parameter string
}

// plugins lists every run, in the order of their output. The gateways of google.longrunning
// and google.iam are runs of their own: their HTTP rules are not in their protos but in
// operations.yaml and iam.yaml, and they are generated into our package, since no other Go
// package has them with these paths. PATCH is without the gateway's own update mask: an absent mask
// has a meaning here (AIP-134), which the gateway would fill in before the server sees
// it.
func (g *generator) plugins() []plugin {
	module := "module=" + g.module
	foreign := func(proto, rest string) plugin {
		return plugin{"protoc-gen-grpc-gateway", []string{proto},
			module + ",standalone=true,M" + proto + "=" + g.module + adminPackage + ",grpc_api_configuration=" + filepath.Join(g.root, rest)}
	}
	return []plugin{
		{"protoc-gen-go", []string{adminProto}, module},
		{"protoc-gen-go", []string{evidenceProto}, module},
		{"protoc-gen-go", []string{wireProto}, module},
		{"protoc-gen-go", []string{snapshotProto}, module},
		{"protoc-gen-go-grpc", []string{adminProto}, module},
		{"protoc-gen-grpc-gateway", []string{adminProto}, module + ",allow_patch_feature=false"},
		foreign(operationsProto, operationsREST),
		foreign(iamProto, iamREST),
		{"protoc-gen-openapiv3", []string{adminProto}, ""},
	}
}

func main() {
	if err := run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run is main with its arguments. args[0] is the name of the program.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	descriptors := flags.String("descriptors", "", "write a FileDescriptorSet to this `file`, below ROOT, and generate nothing")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: protogen [-descriptors FILE] ROOT, where ROOT is the root of the repository")
	}
	root, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	files, err := compile(ctx, root)
	if err != nil {
		return fmt.Errorf("compiling %s: %w", adminProto, err)
	}
	if *descriptors != "" {
		return writeDescriptors(filepath.Join(root, *descriptors), files)
	}
	module, err := moduleOf(ctx, root)
	if err != nil {
		return err
	}
	g := generator{root: root, module: module, files: files}
	return g.all(ctx)
}

// moduleOf asks the go command for the path of the module in a folder.
func moduleOf(ctx context.Context, folder string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "-C", folder, "list", "-m").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module of %s: %w", folder, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// all runs every plugin and finishes what they wrote.
func (g *generator) all(ctx context.Context) error {
	for _, p := range g.plugins() {
		if err := g.run(ctx, p); err != nil {
			return fmt.Errorf("running %s: %w", p.tool, err)
		}
	}
	if err := finishOpenAPI(filepath.Join(g.root, "admin")); err != nil {
		return fmt.Errorf("finishing the OpenAPI document: %w", err)
	}
	return nil
}

// writeDescriptors writes a FileDescriptorSet, with comments (source info), which
// api-linter needs to find its exceptions.
func writeDescriptors(path string, files []*descriptorpb.FileDescriptorProto) error {
	content, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// compile returns the descriptors of admin.proto and of all it imports, each after its
// own imports, as plugins want them. Only our proto is read from disk. Its imports are
// the descriptors of the Go packages that the server is built with, so generated code
// and linked code cannot be of different versions.
func compile(ctx context.Context, root string) ([]*descriptorpb.FileDescriptorProto, error) {
	linked := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		fd, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return protocompile.SearchResult{}, err
		}
		return protocompile.SearchResult{Desc: fd}, nil
	})
	c := protocompile.Compiler{
		Resolver: protocompile.CompositeResolver{
			&protocompile.SourceResolver{Accessor: func(path string) (io.ReadCloser, error) {
				return os.Open(outputPath(root, path))
			}},
			linked,
		},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	out, err := c.Compile(ctx, adminProto, evidenceProto, wireProto, snapshotProto, iamProto)
	if err != nil {
		return nil, err
	}
	var all []*descriptorpb.FileDescriptorProto
	seen := make(map[string]bool)
	for _, f := range out {
		all = appendFile(all, f, seen)
	}
	return all, nil
}

// appendFile appends a file after its imports, once. A file compiled here keeps its
// comments, which become the comments of the generated code; a linked one has none.
func appendFile(
	all []*descriptorpb.FileDescriptorProto, f protoreflect.FileDescriptor, seen map[string]bool,
) []*descriptorpb.FileDescriptorProto {
	if seen[f.Path()] {
		return all
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		all = appendFile(all, f.Imports().Get(i).FileDescriptor, seen)
	}
	if r, ok := f.(linker.Result); ok {
		return append(all, protoutil.ProtoFromFileDescriptor(r))
	}
	return append(all, protodesc.ToFileDescriptorProto(f))
}

// run runs one plugin and writes the files that it returns. The tool's version is pinned by
// this module's go.mod (`go tool`).
func (g *generator) run(ctx context.Context, p plugin) error {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: p.files,
		Parameter:      proto.String(p.parameter),
		ProtoFile:      g.files,
	})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", p.tool)
	cmd.Stdin = bytes.NewReader(request)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		path := outputPath(g.root, f.GetName())
		if err := os.WriteFile(path, []byte(g.importForeign(f)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// outputPath is where a file with this import path is in the repository.
func outputPath(root, path string) string {
	return filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(path, importRoot)))
}

// importForeign corrects the import of google.longrunning or google.iam in generated code.
// The gateway of a foreign proto belongs into our package, but the plugin has one setting
// for the package it writes and the package it imports.
func (g *generator) importForeign(f *pluginpb.CodeGeneratorResponse_File) string {
	imported := "cloud.google.com/go/longrunning/autogen/longrunningpb"
	if strings.HasPrefix(filepath.Base(f.GetName()), "iam") {
		imported = "cloud.google.com/go/iam/apiv1/iampb"
	}
	return strings.Replace(f.GetContent(), `extAdminpb "`+g.module+`/admin/v1"`, `extAdminpb "`+imported+`"`, 1)
}
