package admin

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/apierror"
	"understudy/admin/dataset"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
)

// JSONType is the content type of datasets.
const JSONType = "application/json"

// UploadDataset makes a document the content of a dataset.
func (s *Server) UploadDataset(ctx context.Context, r *adminpb.UploadDatasetRequest) (*longrunningpb.Operation, error) {
	name, err := datasetKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetContent() == nil {
		return nil, apierror.Required("content", "It is the document, of the content type "+JSONType+".")
	}
	if given := r.GetContent().GetContentType(); given != "" && given != JSONType {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "content.content_type", "It is "+JSONType+".")
	}
	var document []byte
	background.Run(len(r.GetContent().GetData()), func() {
		document, err = dataset.Canonical(r.GetContent().GetData(), s.maxDatasetSize)
	})
	if err != nil {
		return nil, refusedContent("content.data", err)
	}
	call := &newContent{verb: VerbUpload, name: name, etag: r.GetEtag(), validateOnly: r.GetValidateOnly()}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readLiveDataset(ctx, name, r.GetEtag())
		if err != nil {
			return nil, err
		}
		return s.replaceContent(ctx, call, stored, document)
	})
}

// PatchDataset applies a JSON Patch to the current content. Without an etag it is applied anew to
// whatever another call has made current meanwhile.
func (s *Server) PatchDataset(ctx context.Context, r *adminpb.PatchDatasetRequest) (*longrunningpb.Operation, error) {
	name, err := datasetKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetPatch() == nil {
		return nil, apierror.Required("patch", "It is a list of the operations of RFC 6902.")
	}
	patch, err := protojson.Marshal(r.GetPatch())
	if err != nil {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "patch", "It has a value that is not JSON: "+apierror.ProtoText(err)+".")
	}
	call := &newContent{verb: VerbPatch, name: name, etag: r.GetEtag(), validateOnly: r.GetValidateOnly()}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readLiveDataset(ctx, name, r.GetEtag())
		if err != nil {
			return nil, err
		}
		current, err := s.currentContent(ctx, stored.dataset)
		if err != nil {
			return nil, err
		}
		var document []byte
		background.Run(len(current), func() { document, err = dataset.Patch(current, patch, s.maxDatasetSize) })
		if err != nil {
			return nil, refusedContent("patch", err)
		}
		return s.replaceContent(ctx, call, stored, document)
	})
}

// newContent is a call that makes a document the content of a dataset.
type newContent struct {
	verb         Verb
	name         Key
	etag         string
	validateOnly bool
	// stored is what of it is in the store already, from an attempt that lost a race.
	stored authz.Content
	hash   string
}

// replaceContent works out how a document becomes the content of a dataset: its chunks are stored
// before the Txn that keeps them.
func (s *Server) replaceContent(ctx context.Context, call *newContent, stored storedDataset, document []byte) (*Change, error) {
	if stored.dataset.Sha256 == authz.Hash(document) {
		return UnchangedResource(call.verb, stored.record, stored.dataset), nil
	}
	there, err := s.versionsOf(ctx, call.name)
	if err != nil {
		return nil, err
	}
	v := s.newVersion(ctx, call.name, there, document)
	if !call.validateOnly {
		if v.Uid, err = s.storeContent(ctx, call, v, document); err != nil {
			return nil, err
		}
	}
	c, err := s.versionActivation(call.verb, stored, v)
	if err != nil {
		return nil, err
	}
	c.Writes = append(append(c.Writes, ExpireContent{contentOf(v), never}), s.trimmed(there, v.SizeBytes)...)
	c.needs(contentOf(v), true)
	return c, nil
}

// storeContent stores the chunks of a version, unless an earlier attempt of the call has, and
// returns the UID under which they are.
func (s *Server) storeContent(ctx context.Context, call *newContent, v *adminpb.DatasetVersion, document []byte) (string, error) {
	if call.hash == v.Sha256 {
		return call.stored.UID, nil
	}
	of := contentOf(v)
	err := authz.Chunked(document, func(i int, chunk []byte) error { return s.store.PutChunk(ctx, of, i, chunk) })
	if err != nil {
		return "", s.storeFailed(ctx, "storing the content of "+string(call.name), err)
	}
	call.stored, call.hash = of, v.Sha256
	return of.UID, nil
}

// DownloadDataset returns the content of a version.
func (s *Server) DownloadDataset(ctx context.Context, r *adminpb.DownloadDatasetRequest) (*httpbody.HttpBody, error) {
	name, err := datasetKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	content, err := s.contentAsked(ctx, name, r.GetVersion())
	if err != nil {
		return nil, err
	}
	return &httpbody.HttpBody{ContentType: JSONType, Data: content}, nil
}

// contentAsked returns the content of the version with a number, or if that is empty of the current
// one.
func (s *Server) contentAsked(ctx context.Context, name Key, number string) ([]byte, error) {
	if number == "" {
		stored, err := s.readDataset(ctx, name)
		if err != nil {
			return nil, err
		}
		return s.currentContent(ctx, stored.dataset)
	}
	version, err := versionKind.parse("version", string(name.In("versions").Key(number)))
	if err != nil {
		return nil, err
	}
	v, err := s.readVersion(ctx, version)
	if err != nil {
		return nil, err
	}
	return s.readContent(ctx, contentOf(v), v.Sha256)
}

// currentContent returns the content of the current version of a dataset, which has to have one.
func (s *Server) currentContent(ctx context.Context, d *adminpb.Dataset) ([]byte, error) {
	of, has := authz.ContentOf(d)
	if !has {
		return nil, apierror.Precondition(Key(d.Name), apierror.ReasonDatasetEmpty, "It has no content yet. Upload a document.")
	}
	return s.readContent(ctx, of, d.Sha256)
}

func (s *Server) readContent(ctx context.Context, of authz.Content, hash string) ([]byte, error) {
	content, err := authz.ReadContent(ctx, s.store, of, hash)
	if errors.Is(err, authz.ErrNoChunk) {
		s.log.ErrorContext(ctx, "the content of a dataset cannot be read", "dataset", string(of.Dataset), "error", err)
		return nil, contentLost(Key(of.Dataset))
	}
	if err != nil {
		return nil, s.storeFailed(ctx, "reading the content of "+string(of.Dataset), err)
	}
	return content, nil
}

// refusedContent is INVALID_ARGUMENT of a document or a patch in a field.
func refusedContent(field apierror.Field, err error) error {
	var refused *dataset.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("checking the content: %w", err)
	}
	why := apierror.ReasonInvalidContent
	if refused.Large {
		why = apierror.ReasonDatasetTooLarge
	}
	return apierror.Invalid(why, field+apierror.Field(apierror.Shown(refused.Path)), refused.Description)
}
