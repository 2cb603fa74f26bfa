package admin

import (
	"context"
	"strconv"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
)

// A dataset is a record like a policy, which names its current version. A version is a record
// below it, and what the version contains is next to the records, in chunks (authz.Content). Every
// change of a version changes the dataset as well: so a Txn that finds the dataset unchanged finds
// its versions unchanged, too.

// storedDataset is a dataset as it was read, or the knowledge that there is none.
type storedDataset struct {
	name   Key
	record Record
	// dataset is nil if there is none, or if it cannot be read.
	dataset *adminpb.Dataset
	// damage is the caller's error of a dataset that cannot be read.
	damage error
}

func (d storedDataset) exists() bool { return d.record.Key != "" }

// live reports whether the dataset exists and is not soft-deleted. One that cannot be read is
// soft-deleted if its record has an expiry.
func (d storedDataset) live() bool {
	if d.damage != nil {
		return d.record.ExpireTime.IsZero()
	}
	return d.exists() && d.dataset.DeleteTime == nil
}

// unchanged is the condition under which what was worked out from d still holds.
func (d storedDataset) unchanged() Condition { return UnchangedRecord(d.name, d.record) }

// findDataset reads a dataset for those who can do without what is in its record.
func (s *Server) findDataset(ctx context.Context, name Key) (storedDataset, error) {
	records, err := s.Get(ctx, name)
	if err != nil {
		return storedDataset{}, err
	}
	out := storedDataset{name: name, record: records[0]}
	if !out.exists() {
		return out, nil
	}
	d, err := Decode(records[0], &adminpb.Dataset{})
	if err != nil {
		out.damage = s.damaged(ctx, name, err)
		return out, nil
	}
	out.dataset = d
	return out, nil
}

// readDataset reads a dataset, which has to be there and readable; it may be soft-deleted.
func (s *Server) readDataset(ctx context.Context, name Key) (storedDataset, error) {
	stored, err := s.findDataset(ctx, name)
	switch {
	case err != nil:
		return stored, err
	case !stored.exists():
		return stored, apierror.NotFound(name)
	}
	return stored, stored.damage
}

// readLiveDataset is readDataset of one that is not soft-deleted and has an etag, if one is given.
func (s *Server) readLiveDataset(ctx context.Context, name Key, etag string) (storedDataset, error) {
	stored, err := s.readDataset(ctx, name)
	if err != nil {
		return stored, err
	}
	if !stored.live() {
		return stored, datasetDeleted(name)
	}
	return stored, matchEtag(name, etag, stored.dataset.Etag)
}

// GetDataset implements AIP-131. A soft-deleted dataset is returned too (AIP-164).
func (s *Server) GetDataset(ctx context.Context, r *adminpb.GetDatasetRequest) (*adminpb.Dataset, error) {
	name, err := datasetKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	stored, err := s.readDataset(ctx, name)
	if err != nil {
		return nil, err
	}
	return stored.dataset, s.markReconciling(ctx, name, stored.record.Sequence, &stored.dataset.Reconciling)
}

// ListDatasets implements AIP-132. It omits soft-deleted datasets unless they are asked for
// (AIP-164).
func (s *Server) ListDatasets(ctx context.Context, r *adminpb.ListDatasetsRequest) (*adminpb.ListDatasetsResponse, error) {
	parent, err := locationKind.parseParent("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, r.GetOrderBy(), datasetSchema, r.GetParent(), strconv.FormatBool(r.GetShowDeleted()))
	if err != nil {
		return nil, err
	}
	datasets, unreachable, err := readAll(ctx, s, l, listed{parent.In("datasets"), r.GetShowDeleted()}, func(d *adminpb.Dataset, reconciling bool) bool {
		d.Reconciling = reconciling
		return d.DeleteTime == nil || r.GetShowDeleted()
	})
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, datasets)
	return &adminpb.ListDatasetsResponse{Datasets: out, NextPageToken: next, Unreachable: unreachable}, err
}

// CreateDataset implements AIP-133. The dataset has no content yet.
func (s *Server) CreateDataset(ctx context.Context, r *adminpb.CreateDatasetRequest) (*longrunningpb.Operation, error) {
	parent, err := locationKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := checkID("dataset_id", r.GetDatasetId()); err != nil {
		return nil, err
	}
	if r.GetDataset() == nil {
		return nil, apierror.Required("dataset", "It may be empty: {}. Its content is uploaded.")
	}
	name := parent.In("datasets").Key(r.GetDatasetId())
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.findDataset(ctx, name)
		if err != nil {
			return nil, err
		}
		return s.datasetCreation(VerbCreate, stored, r.GetDataset(), r.GetValidateOnly())
	})
}

// UpdateDataset implements AIP-134, with allow_missing.
func (s *Server) UpdateDataset(ctx context.Context, r *adminpb.UpdateDatasetRequest) (*longrunningpb.Operation, error) {
	given := r.GetDataset()
	if given == nil {
		return nil, apierror.Required("dataset", "Its name says what to update.")
	}
	name, err := datasetKind.parse("dataset.name", given.GetName())
	if err != nil {
		return nil, err
	}
	mask, err := content.ParseMask(r.GetUpdateMask(), given)
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.findDataset(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case stored.damage != nil:
			return s.damagedDatasetUpdate(stored, given, mask)
		case stored.exists():
			return s.datasetUpdate(stored, given, mask)
		case !r.GetAllowMissing():
			return nil, apierror.NotFound(name)
		case given.GetEtag() != "":
			return nil, apierror.MissingAborted(name, given.GetEtag())
		}
		if err := checkID("dataset.name", name.ID()); err != nil {
			return nil, err
		}
		return s.datasetCreation(VerbUpdate, stored, given, r.GetValidateOnly())
	})
}

// datasetCreation works out the creation of a dataset. A soft-deleted one keeps its ID until it is
// purged (AIP-164). What an earlier dataset of its name left behind goes.
func (s *Server) datasetCreation(verb Verb, stored storedDataset, given *adminpb.Dataset, validateOnly bool) (*Change, error) {
	d := proto.CloneOf(given)
	aip.ClearOutputOnly(d)
	d.Name = string(stored.name)
	if err := notReserved("parent", Key(stored.name.Location())); err != nil {
		return nil, err
	}
	if err := content.CheckDataset("dataset", d); err != nil {
		return nil, err
	}
	if stored.exists() {
		return nil, datasetExists(stored)
	}
	if validateOnly {
		return &Change{Target: stored.name, Response: d}, nil
	}
	now := timestamppb.New(s.now())
	d.Uid, d.CreateTime = NewID(), now
	c, err := s.datasetReplacement(verb, stored, d)
	if err != nil {
		return nil, err
	}
	c.Writes = append(c.Writes, DeleteCollection{stored.name.In("versions")}, DeleteCollection{stored.name.iam()})
	return c, nil
}

// datasetUpdate works out the update of a dataset that is there.
func (s *Server) datasetUpdate(stored storedDataset, given *adminpb.Dataset, mask aip.Mask) (*Change, error) {
	if !stored.live() {
		return nil, datasetDeleted(stored.name)
	}
	if err := matchEtag(stored.name, given.GetEtag(), stored.dataset.Etag); err != nil {
		return nil, err
	}
	d := proto.CloneOf(stored.dataset)
	if err := content.ApplyMask("dataset", mask, d, given); err != nil {
		return nil, err
	}
	if err := content.CheckDataset("dataset", d); err != nil {
		return nil, err
	}
	if proto.Equal(content.OfDataset(d), content.OfDataset(stored.dataset)) {
		return UnchangedResource(VerbUpdate, stored.record, stored.dataset), nil
	}
	return s.datasetReplacement(VerbUpdate, stored, d)
}

// datasetReplacement is the change that puts a dataset in the place of stored, as of now.
func (s *Server) datasetReplacement(verb Verb, stored storedDataset, d *adminpb.Dataset) (*Change, error) {
	d.UpdateTime = timestamppb.New(s.now())
	var err error
	if d.Etag, err = content.DatasetEtag(d); err != nil {
		return nil, err
	}
	put, err := NewPut(stored.name, d.Etag, d)
	if err != nil {
		return nil, err
	}
	return &Change{
		Target: stored.name, Verb: verb,
		Conditions: []Condition{stored.unchanged()}, Writes: []Write{put},
		before: stored.record.Etag, after: d.Etag, Response: d,
	}, nil
}

// datasetExists is the error of an ID that is taken.
func datasetExists(stored storedDataset) error {
	hint := "Update it, upload its content, or choose another ID."
	switch {
	case stored.damage != nil:
		hint = "It cannot be read. " + damageHints[datasetKind.resourceType]
	case !stored.live():
		hint = "It is deleted, but keeps its ID until it is purged. Undelete it, or choose another ID."
	}
	return apierror.AlreadyExists(stored.name, apierror.ReasonAlreadyExists, hint)
}

// datasetDeleted is FAILED_PRECONDITION of a soft-deleted dataset.
func datasetDeleted(name Key) error {
	return apierror.Precondition(name, apierror.ReasonDatasetDeleted, "The dataset is deleted. Undelete it first.")
}
