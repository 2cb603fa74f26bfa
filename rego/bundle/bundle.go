// Package bundle reads OPA bundles and folders of Rego: what a policy is made of.
//
// A bundle is an archive (tar.gz) or a folder with modules, data and a manifest. Reading
// is bounded in files and bytes, follows no links, and verifies the signature of a signed
// bundle before anything else of it is looked at. The result has Rego v1 alone: v0 is
// refused, or translated. It is used by anyone who imports policies, never for a decision.
package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	opabundle "github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/bundle/v1pb"
	"github.com/open-policy-agent/opa/v1/loader/filter"
	"google.golang.org/protobuf/proto"

	"understudy/rego/compile"
)

// Bundle is the content of an OPA bundle: what a Source is made of.
type Bundle struct {
	// Modules :: path in the bundle → Rego v1 text.
	Modules map[string]string
	// Data is what the data files say, nested by their folders, in the types of
	// encoding/json; numbers are json.Number.
	Data map[string]any
	// Revision is that of the manifest; it may be empty.
	Revision string
	// Translated are the modules that were Rego v0, in order.
	Translated []string
}

// Options say how a bundle is read.
type Options struct {
	// V0Compatible translates modules of Rego v0 instead of refusing them.
	V0Compatible bool
	// WithoutTests leaves out the modules of files like authz_test.rego.
	WithoutTests bool
	// SkipVerify takes a signed bundle without looking at its signature.
	SkipVerify bool
	// Key verifies the signature, which then has to be there. Nil means that a
	// signed bundle is refused.
	Key *VerificationKey
}

// Read reads an OPA bundle: a tar archive, which may be compressed by gzip.
// It is bounded: 64 MiB unpacked, 10 000 files. The error is a *Error, a
// *compile.Error if modules cannot be parsed, or that of the reader.
func Read(ctx context.Context, r io.Reader, options Options) (*Bundle, error) {
	content, err := readArchive(r)
	if err != nil {
		return nil, err
	}
	return openBundle(ctx, content, options)
}

// ReadFolder reads a folder as Read reads an archive of it. Hidden folders
// are passed over.
func ReadFolder(ctx context.Context, folder fs.FS, options Options) (*Bundle, error) {
	content, err := readFolder(folder)
	if err != nil {
		return nil, err
	}
	return openBundle(ctx, content, options)
}

// fileKind is what a file means in a bundle. Its name decides.
type fileKind int

const (
	otherFile fileKind = iota
	moduleFile
	dataFile
	manifestFile
	signaturesFile
	wasmFile
	planFile
	patchFile
)

// fileKinds :: base name → kind, for all but modules.
var fileKinds = map[string]fileKind{
	"data.json": dataFile, "data.yaml": dataFile, "data.yml": dataFile,
	opabundle.ManifestExt: manifestFile, opabundle.ManifestProtoExt: manifestFile,
	".signatures.json": signaturesFile,
	opabundle.WasmFile: wasmFile,
	opabundle.PlanFile: planFile, opabundle.PlanProtoFile: planFile,
	"patch.json": patchFile,
}

func kindOfFile(name string) fileKind {
	if strings.HasSuffix(name, opabundle.RegoExt) {
		return moduleFile
	}
	return fileKinds[path.Base(name)]
}

// ofKind returns the names of one kind, in order, so that errors and translations are
// the same each time.
func (f files) ofKind(kind fileKind) []string {
	var names []string
	for name := range f {
		if kindOfFile(name) == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// openBundle makes a Bundle of files. The order matters: what a policy cannot hold is
// refused first, the signature is verified before any content is parsed, and the
// manifest says which version of Rego the modules are. OPA's code for bundles has
// panicked on malformed ones; a panic becomes a refusal, as the server must not end by
// an import.
func openBundle(ctx context.Context, content files, options Options) (_ *Bundle, err error) {
	defer func() {
		if recover() != nil {
			err = refuse("", "The bundle breaks its reader.")
		}
	}()
	if err := refuseCompiled(content); err != nil {
		return nil, err
	}
	if err := verify(content, options); err != nil {
		return nil, err
	}
	manifest, err := manifestOf(content)
	if err != nil {
		return nil, err
	}
	out := &Bundle{Modules: make(map[string]string), Revision: manifest.Revision}
	if err := out.readModules(ctx, content, manifest, options); err != nil {
		return nil, err
	}
	out.Data, err = out.readData(content, manifest)
	return out, err
}

// refuseCompiled refuses bundles whose policy is not, or not only, in its modules.
func refuseCompiled(content files) error {
	for _, name := range content.ofKind(wasmFile) {
		return refuse(name, "The policy is compiled to WebAssembly, which a policy cannot hold. Build the bundle with `opa build --target rego`.")
	}
	for _, name := range content.ofKind(planFile) {
		return refuse(name, "The policy is compiled to a plan, which a policy cannot hold. Build the bundle with `opa build --target rego`.")
	}
	for _, name := range content.ofKind(patchFile) {
		return refuse(name, "It is a delta bundle, which only changes another one. Import a snapshot bundle.")
	}
	if len(content.ofKind(moduleFile))+len(content.ofKind(dataFile)) == 0 {
		return refuse("", "There is neither a .rego file nor a data.json, data.yaml or data.yml.")
	}
	return nil
}

// manifestOf decodes the manifest, of which there is at most one.
func manifestOf(content files) (*opabundle.Manifest, error) {
	names := content.ofKind(manifestFile)
	switch {
	case len(names) == 0:
		return &opabundle.Manifest{}, nil
	case len(names) > 1:
		return nil, refuse(names[1], "There is a second manifest, next to %s. Import one bundle at a time.", names[0])
	}
	manifest, err := decodeManifest(names[0], content[names[0]])
	if err != nil {
		return nil, refuse(names[0], "It is no manifest: %s", err)
	}
	return manifest, nil
}

// decodeManifest reads either form of a manifest: JSON, or the protobuf that newer
// versions of opa build write.
func decodeManifest(name string, content []byte) (*opabundle.Manifest, error) {
	if path.Base(name) == opabundle.ManifestExt {
		manifest := &opabundle.Manifest{}
		return manifest, json.Unmarshal(content, manifest)
	}
	message := &v1pb.Manifest{}
	if err := proto.Unmarshal(content, message); err != nil {
		return nil, err
	}
	return opabundle.ManifestFromProto(message)
}

// readModules takes the modules, as they are or translated. Every one is parsed here,
// so that an import fails with file and row rather than later at the API, without them.
func (b *Bundle) readModules(ctx context.Context, content files, manifest *opabundle.Manifest, options Options) error {
	var old []string
	for _, name := range content.ofKind(moduleFile) {
		if options.WithoutTests && strings.HasSuffix(name, "_test.rego") {
			continue
		}
		declared, err := declaredVersion(manifest, name)
		if err != nil {
			return err
		}
		b.Modules[name] = string(content[name])
		if isV0(name, b.Modules[name], declared) {
			old = append(old, name)
		}
	}
	if len(old) > 0 && !options.V0Compatible {
		return refuseV0(old)
	}
	if err := b.translate(old); err != nil {
		return err
	}
	_, err := compile.Parse(ctx, b.Modules)
	return err
}

// declaredVersion returns what the manifest says of a file. Its patterns begin with a
// slash or do not, as the names in an archive do, so both forms are tried. A pattern
// for the file wins over the version of the whole manifest.
func declaredVersion(manifest *opabundle.Manifest, name string) (ast.RegoVersion, error) {
	version := ast.RegoUndefined
	for _, written := range []string{name, "/" + name} {
		v, err := manifest.RegoVersionForFile(written)
		if err != nil {
			return v, refuse(name, "The manifest does not say its Rego version: %s", err)
		}
		if own := manifest.RegoVersion == nil || v.Int() != *manifest.RegoVersion; own || version == ast.RegoUndefined {
			version = v
		}
	}
	if version == ast.RegoV2 {
		return version, refuse(name, "The manifest declares it to be Rego v2, and modules are stored without a manifest. Write `import rego.v2` into the module, and leave rego_version out of the manifest.")
	}
	return version, nil
}

// readData lets OPA's own reader nest the data and hold everything to the roots of the
// manifest: that data lies below the folder of its file, and nothing outside of the
// roots, is OPA's rule, and should stay as OPA has it. The signature was verified
// before, and all modules are v1 by now, so the manifest that it gets is changed in
// these two points.
func (b *Bundle) readData(content files, manifest *opabundle.Manifest) (map[string]any, error) {
	v1 := manifest.Copy()
	v1.FileRegoVersions, v1.WasmResolvers = nil, nil
	v1.SetRegoVersion(ast.RegoV1)
	encoded, err := json.Marshal(v1)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	loader := &memoryLoader{content: files{opabundle.ManifestExt: encoded}}
	for name, text := range b.Modules {
		loader.content[name] = []byte(text)
	}
	for _, name := range content.ofKind(dataFile) {
		loader.content[name] = content[name]
	}
	loader.names = slices.Sorted(maps.Keys(loader.content))
	read, err := opabundle.NewCustomReader(loader).WithSkipBundleVerification(true).WithLazyLoadingMode(false).
		WithSizeLimitBytes(maxBundleSize).WithRegoVersion(ast.RegoV1).Read()
	var refused ast.Errors
	switch {
	case errors.As(err, &refused):
		return nil, compile.NewError(compile.ProblemsOf(refused))
	case err != nil:
		return nil, refuse("", "The bundle is not in order: %s", err)
	}
	return read.Data, nil
}

// memoryLoader gives files in memory to OPA's reader, each once and in order. It
// implements opabundle.DirectoryLoader.
type memoryLoader struct {
	content files
	names   []string
}

// NextFile returns the next file, or io.EOF.
func (l *memoryLoader) NextFile() (*opabundle.Descriptor, error) {
	if len(l.names) == 0 {
		return nil, io.EOF
	}
	name := l.names[0]
	l.names = l.names[1:]
	return opabundle.NewDescriptor(name, name, bytes.NewBuffer(l.content[name])), nil
}

// WithFilter has nothing to do: what is not wanted is not there.
func (l *memoryLoader) WithFilter(filter.LoaderFilter) opabundle.DirectoryLoader { return l }

// WithPathFormat has nothing to do: paths are as they are.
func (l *memoryLoader) WithPathFormat(opabundle.PathFormat) opabundle.DirectoryLoader { return l }

// WithSizeLimitBytes has nothing to do: the files have been read within bounds.
func (l *memoryLoader) WithSizeLimitBytes(int64) opabundle.DirectoryLoader { return l }

// WithFollowSymlinks has nothing to do: there are none.
func (l *memoryLoader) WithFollowSymlinks(bool) opabundle.DirectoryLoader { return l }
