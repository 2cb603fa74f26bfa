package author

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/replay"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/reportview"
)

// replaySource is one of the two policies of `replay`.
// replaySource says where a policy comes from, so that a report says what it is about.
type replaySource struct {
	policy *adminpb.Policy
	// expects are the differences that an experiment is meant to make.
	expects []*adminpb.Expectation
	// etag names the content in the report: the server's, or one of ours.
	etag string
	// revision is what logs call this content; empty if that is not known.
	revision string
	// id is that of a policy of the server; empty for a file.
	id string
	// from says where it comes from.
	from string
}

var (
	// shortName is what a policy or an experiment of the server is called in a location, and
	// wholeName in any.
	shortName = regexp.MustCompile(`^[a-z0-9-]+(/[a-z0-9-]+)?$`)
	wholeName = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/policies/`)
)

// read reads what a flag names: a file or a folder if there is one, else a policy of the server.
// A name that both have is refused.
//
// The flag is the one at fault, for errors.
func (f *replayFlags) read(ctx context.Context, flag, name string) (*replaySource, error) {
	info, err := os.Stat(name)
	if err == nil && shortName.MatchString(name) {
		if err := f.unambiguous(ctx, flag, name); err != nil {
			return nil, err
		}
	}
	switch {
	case wholeName.MatchString(name):
		return f.fromServer(ctx, flag, name)
	case err == nil && command.OneOf(filepath.Ext(name), ".yaml", ".yml", ".json"):
		experiment, err := readExperiment(name, nil)
		if err == nil {
			err = content.CheckExperiment("experiment", experiment)
		}
		if err != nil {
			return nil, command.Usage(fmt.Errorf("%s: %s: %w", flag, name, err))
		}
		return f.fromFile(experiment, "", "the file "+name)
	case err == nil:
		return f.fromBundle(ctx, flag, name, kindOf(info)+name)
	case errors.Is(err, os.ErrNotExist) && filepath.Ext(name) == "":
		return f.fromServer(ctx, flag, name)
	}
	return nil, command.Usage(fmt.Errorf("%s: %w", flag, err))
}

// unambiguous refuses a name that is both here and on the server, or may be: what was compared
// would be a matter of the folder in which the command runs.
//
// Where no server is named and none listens on this machine, a file is meant.
func (f *replayFlags) unambiguous(ctx context.Context, flag, name string) error {
	if err := f.client.Connect(); err != nil {
		return command.Usage(err)
	}
	defer func() { _ = f.client.Conn.Close() }()
	spellings := fmt.Sprintf("write ./%s for what is here, or %s for that of the server", name, f.client.Name(name))
	switch known, err := f.client.Known(ctx, name); {
	case err != nil:
		return command.Usage(fmt.Errorf("%s: %s is here, and may be a policy of the server as well (%w): %s", flag, name, err, spellings))
	case known:
		return command.Usage(fmt.Errorf("%s: %s is here, and a policy of the server at %s as well: %s", flag, name, f.client.Addr(), spellings))
	}
	return nil
}

// kindOf says what a file is that is read as a bundle.
func kindOf(info os.FileInfo) string {
	switch {
	case info.IsDir():
		return "the folder "
	case filepath.Ext(info.Name()) == ".rego":
		return "the module "
	default:
		return "the bundle "
	}
}

// fromServer reads a policy of the server. A log names it by its ID.
//
// What is compared is the policy as it is now; the report has its etag.
func (f *replayFlags) fromServer(ctx context.Context, flag, name string) (*replaySource, error) {
	if err := f.client.Connect(); err != nil {
		return nil, command.Usage(err)
	}
	defer func() { _ = f.client.Conn.Close() }()
	experiment, err := f.client.Experiment(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: there is no file %s, and of the server: %w", flag, name, err)
	}
	whole := f.client.Name(name)
	from := fmt.Sprintf("%s of the server at %s", whole, f.client.Addr())
	policy := experiment.GetPolicy()
	if revision := policy.GetRevision(); revision != "" {
		from += ", revision " + beginning(authz.ResourceName(revision).ID())
	}
	return &replaySource{
		// Decision logs of a sidecar name the etag of the policy as its revision.
		policy: policy, expects: experiment.GetExpects(), etag: policy.GetEtag(), revision: policy.GetEtag(), id: string(authz.ResourceName(whole).Policy().ID()), from: from,
	}, nil
}

// fromBundle reads a bundle, a folder or a module, with the rules of --rule.
//
// A bundle has a revision in its manifest, which OPA's decision logs have, too: so drift can be
// distinguished from another revision.
func (f *replayFlags) fromBundle(ctx context.Context, flag, name, from string) (*replaySource, error) {
	options, err := f.source.options()
	if err != nil {
		return nil, err
	}
	bundle, err := readBundle(ctx, name, nil, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, explain(name, err))
	}
	policy, err := policyOf(name, bundle)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	choice := importFlags{rules: f.rules}
	rules, err := choice.choose(ctx, bundle)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, name, err)
	}
	for _, path := range rules {
		policy.Rules = append(policy.Rules, &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: path}}})
	}
	if bundle.Revision != "" {
		from += ", revision " + bundle.Revision
	}
	return f.fromFile(&adminpb.PolicyExperiment{Policy: policy}, bundle.Revision, from)
}

// fromFile names the content of a file by its hash.
//
// Only what decides is hashed: a display name or a label is no other content.
func (f *replayFlags) fromFile(experiment *adminpb.PolicyExperiment, revision, from string) (*replaySource, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(authz.CompiledPart(experiment.GetPolicy()))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(encoded)
	return &replaySource{policy: experiment.GetPolicy(), expects: experiment.GetExpects(), etag: hex.EncodeToString(sum[:8]), revision: revision, from: from}, nil
}

// shownID is how much of an etag or of a revision's ID people see.
const shownID = 12

// side says in the head of the report what was compared: where it comes from, and its etag.
func (s *replaySource) side(name string) reportview.Side {
	etag := strings.TrimSuffix(strings.TrimPrefix(s.etag, `W/"`), `"`)
	return reportview.Side{Name: name, From: s.from + ", etag " + beginning(etag)}
}

// beginning is enough of a hash to know it by.
//
// Twelve hexadecimal characters are 48 bits.
func beginning(hash string) string { return hash[:min(len(hash), shownID)] }

// logFile is a file of a log.
type logFile struct {
	replay.File
	// size is that of the file, in bytes; 0 if it is not known.
	size int64
}

// recordings are the files of the arguments. That one cannot be read is known before anything
// is replayed.
//
// Files are opened one after the other when it is their turn: thousands of them do not need thousands
// of descriptors.
func recordings(names []string, stdin io.Reader) (out []logFile, err error) {
	for _, name := range names {
		if name == "-" {
			out = append(out, logFile{File: replay.File{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}})
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, command.Usage(err)
		}
		if info.IsDir() {
			return nil, command.Usage(fmt.Errorf("%s is a folder: name the files in it, such as %s", name, filepath.Join(name, "*.log")))
		}
		size := int64(0)
		// A named pipe, as of a shell's <( … ), has no size.
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		out = append(out, logFile{replay.File{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }}, size})
	}
	return out, nil
}
