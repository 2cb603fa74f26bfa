package admin

import (
	"context"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// DeleteDataset implements the soft delete of AIP-164. The versions stay until it is purged.
func (s *Server) DeleteDataset(ctx context.Context, r *adminpb.DeleteDatasetRequest) (*longrunningpb.Operation, error) {
	name, err := datasetKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.findDataset(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.live() && stored.damage == nil {
			if r.GetAllowMissing() {
				return nothingToDelete(name, &adminpb.Dataset{Name: string(name)}), nil
			}
			return nil, apierror.NotFound(name)
		}
		if err := matchEtag(name, r.GetEtag(), stored.record.Etag); err != nil {
			return nil, err
		}
		return s.datasetDeletion(ctx, stored)
	})
}

// datasetDeletion works out the soft delete of a live dataset. One that cannot be read could not be
// restored either: it is purged at once.
func (s *Server) datasetDeletion(ctx context.Context, stored storedDataset) (*Change, error) {
	now := s.now()
	purge := now.Add(purgeAfter)
	d := &adminpb.Dataset{Name: string(stored.name), DeleteTime: timestamppb.New(now), PurgeTime: timestamppb.New(now)}
	record := Write(Delete{stored.name})
	if stored.damage != nil {
		purge = now
	} else {
		d = proto.CloneOf(stored.dataset)
		d.DeleteTime, d.UpdateTime, d.PurgeTime = timestamppb.New(now), timestamppb.New(now), timestamppb.New(purge)
		put, err := NewPut(stored.name, d.Etag, d)
		if err != nil {
			return nil, err
		}
		put.ExpireTime = purge
		record = put
	}
	versions, err := s.versionsOf(ctx, stored.name)
	if err != nil {
		return nil, err
	}
	return &Change{
		Target: stored.name, Verb: VerbDelete,
		Conditions: []Condition{stored.unchanged()},
		Writes: append([]Write{
			record, ExpireCollection{stored.name.In("versions"), purge}, ExpireCollection{stored.name.iam(), purge},
		}, expireContents(versions, purge.Add(authz.ContentKept))...),
		before: stored.record.Etag, after: d.Etag, Response: d,
	}, nil
}

// expireContents gives what versions contain an expiry, or with the zero time none.
func expireContents(versions []storedVersion, at time.Time) (out []Write) {
	for _, v := range versions {
		out = append(out, ExpireContent{v.content(), at})
	}
	return out
}

// UndeleteDataset implements AIP-164.
func (s *Server) UndeleteDataset(ctx context.Context, r *adminpb.UndeleteDatasetRequest) (*longrunningpb.Operation, error) {
	name, err := datasetKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readDataset(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case stored.live():
			return nil, apierror.AlreadyExists(name, apierror.ReasonDatasetNotDeleted, "It is not deleted.")
		}
		if err := matchEtag(name, r.GetEtag(), stored.dataset.Etag); err != nil {
			return nil, err
		}
		return s.datasetRestoration(ctx, stored)
	})
}

// datasetRestoration works out the undelete of a soft-deleted dataset. Its current content has to
// be there still.
func (s *Server) datasetRestoration(ctx context.Context, stored storedDataset) (*Change, error) {
	versions, err := s.versionsOf(ctx, stored.name)
	if err != nil {
		return nil, err
	}
	d := proto.CloneOf(stored.dataset)
	d.DeleteTime, d.PurgeTime = nil, nil
	c, err := s.datasetReplacement(VerbUndelete, stored, d)
	if err != nil {
		return nil, err
	}
	c.Writes = append(c.Writes,
		ExpireCollection{Collection: stored.name.In("versions")}, ExpireCollection{Collection: stored.name.iam()})
	c.Writes = append(c.Writes, expireContents(versions, time.Time{})...)
	c.needs(authz.ContentOf(d))
	return c, nil
}

// needs has a change fail for good if a content is not in the store.
func (c *Change) needs(of authz.Content, has bool) {
	if !has {
		return
	}
	c.Conditions = append(c.Conditions, Complete{of})
	c.refused = func(failed Condition) error {
		if _, lost := failed.(Complete); lost {
			return contentLost(Key(of.Dataset))
		}
		return nil
	}
}

// contentLost is DATA_LOSS of a dataset whose content is not in the store as it was written.
func contentLost(name Key) error {
	const hint = "Upload it again, or roll back to another version."
	return apierror.New(codes.DataLoss, apierror.ReasonDamaged,
		"The content of '"+string(name)+"' is not in the store as it was written. "+hint,
		apierror.Facts{"resource": string(name), "hint": hint})
}

// damagedDatasetUpdate works out the replacement of a dataset that cannot be read, by an update of
// all fields. Which version was current is lost: roll back to one, or upload.
func (s *Server) damagedDatasetUpdate(stored storedDataset, given *adminpb.Dataset, mask aip.Mask) (*Change, error) {
	switch {
	case !mask.All():
		return nil, stored.damage
	case !stored.live():
		return nil, datasetDeleted(stored.name)
	}
	if err := matchEtag(stored.name, given.GetEtag(), stored.record.Etag); err != nil {
		return nil, err
	}
	d := &adminpb.Dataset{Name: string(stored.name), Uid: NewID(), CreateTime: timestamppb.New(s.now())}
	if err := content.ApplyMask("dataset", mask, d, given); err != nil {
		return nil, err
	}
	if err := content.CheckDataset("dataset", d); err != nil {
		return nil, err
	}
	return s.datasetReplacement(VerbUpdate, stored, d)
}
