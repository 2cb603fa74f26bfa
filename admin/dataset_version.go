package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const (
	// maxVersions and maxVersionBytes are how many versions are kept of a dataset, and of what
	// size together. The current one is kept whatever its size.
	maxVersions     = 20
	maxVersionBytes = 256 << 20
)

// storedVersion is a version as it was read.
type storedVersion struct {
	record  Record
	version *adminpb.DatasetVersion
}

// content is the name of what the version contains.
func (v storedVersion) content() authz.Content { return contentOf(v.version) }

func contentOf(v *adminpb.DatasetVersion) authz.Content {
	return authz.NewContent(authz.DatasetName(Key(v.Name).parent()), v.Uid, v.SizeBytes)
}

// GetDatasetVersion implements AIP-131.
func (s *Server) GetDatasetVersion(ctx context.Context, r *adminpb.GetDatasetVersionRequest) (*adminpb.DatasetVersion, error) {
	name, err := versionKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.readVersion(ctx, name)
}

// readVersion reads a version.
func (s *Server) readVersion(ctx context.Context, name Key) (*adminpb.DatasetVersion, error) {
	records, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if records[0].Key == "" {
		return nil, apierror.NotFound(name)
	}
	v, err := Decode(records[0], &adminpb.DatasetVersion{})
	if err != nil {
		return nil, s.damaged(ctx, name, err)
	}
	return v, nil
}

// ListDatasetVersions implements AIP-132, newest first.
func (s *Server) ListDatasetVersions(
	ctx context.Context, r *adminpb.ListDatasetVersionsRequest,
) (*adminpb.ListDatasetVersionsResponse, error) {
	parent, err := datasetKind.parseParent("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, cmp.Or(r.GetOrderBy(), newestFirst), versionSchema, r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := s.requireParent(ctx, parent); err != nil {
		return nil, err
	}
	versions, unreachable, err := readAll(ctx, s, l, listed{parent.In("versions"), true}, func(*adminpb.DatasetVersion, bool) bool { return true })
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, versions)
	return &adminpb.ListDatasetVersionsResponse{DatasetVersions: out, NextPageToken: next, Unreachable: unreachable}, err
}

// RollbackDataset makes an earlier version current again. It is no new version.
func (s *Server) RollbackDataset(ctx context.Context, r *adminpb.RollbackDatasetRequest) (*longrunningpb.Operation, error) {
	name, err := versionKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readLiveDataset(ctx, name.parent(), r.GetEtag())
		if err != nil {
			return nil, err
		}
		v, err := s.readVersion(ctx, name)
		if err != nil {
			return nil, err
		}
		if stored.dataset.Version == v.Name {
			return UnchangedResource(VerbRollback, stored.record, stored.dataset), nil
		}
		c, err := s.versionActivation(VerbRollback, stored, v)
		if err != nil {
			return nil, err
		}
		c.needs(contentOf(v), true)
		return c, nil
	})
}

// versionActivation is the change that makes a version current. Its record is put again, so that
// the sequence says when it was last made current.
func (s *Server) versionActivation(verb Verb, stored storedDataset, v *adminpb.DatasetVersion) (*Change, error) {
	d := proto.CloneOf(stored.dataset)
	d.Version, d.VersionUid, d.SizeBytes, d.Sha256, d.VersionCreateTime = v.Name, v.Uid, v.SizeBytes, v.Sha256, v.CreateTime
	c, err := s.datasetReplacement(verb, stored, d)
	if err != nil {
		return nil, err
	}
	put, err := NewPut(Key(v.Name), "", v)
	if err != nil {
		return nil, err
	}
	c.Writes = append(c.Writes, put)
	return c, nil
}

// newVersion is a version of a dataset as of now, with the number after those that there are.
func (s *Server) newVersion(ctx context.Context, of Key, there []storedVersion, content []byte) *adminpb.DatasetVersion {
	last, by := 0, access.FromContext(ctx)
	for _, v := range there {
		n, _ := strconv.Atoi(v.record.Key.ID())
		last = max(last, n)
	}
	return &adminpb.DatasetVersion{
		Name: string(of.In("versions").Key(strconv.Itoa(last + 1))), Uid: NewID(),
		SizeBytes: int64(len(content)), Sha256: authz.Hash(content),
		CreateTime: timestamppb.New(s.now()), Creator: by.Member, CreatorDisplay: by.Display,
	}
}

// versionsOf reads the versions of a dataset, those first that were current last. Those that cannot
// be read are left out: what they contain stays as it is.
func (s *Server) versionsOf(ctx context.Context, name Key) (out []storedVersion, err error) {
	records, err := s.List(ctx, Query{Collection: name.In("versions")})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if v, err := Decode(r, &adminpb.DatasetVersion{}); err == nil {
			out = append(out, storedVersion{r, v})
		}
	}
	slices.SortFunc(out, func(a, b storedVersion) int { return cmp.Compare(b.record.Sequence, a.record.Sequence) })
	return out, nil
}

// trimmed are the writes that remove those versions which are too many next to a new one of so many
// bytes. Sidecars that still load one have time to end.
func (s *Server) trimmed(there []storedVersion, size int64) (out []Write) {
	kept, at := 1, s.now().Add(authz.ContentKept)
	for _, v := range there {
		if size += v.version.SizeBytes; kept < maxVersions && size <= maxVersionBytes {
			kept++
			continue
		}
		out = append(out, Delete{v.record.Key}, ExpireContent{v.content(), at})
	}
	return out
}

// never is the expiry of what is kept.
var never time.Time
