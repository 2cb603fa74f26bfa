package cli

import (
	"context"
	"fmt"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// What an apply does to a resource, for people and in the field change of its JSON.
//
// They are part of the output with -o json, so they stay as they are.
const (
	created   = "created"
	updated   = "updated"
	unchanged = "unchanged"
	// undeleted is that of a policy which was deleted, whatever its content was.
	undeleted = "undeleted"
	// applied is that of a resource which was not readable before.
	applied = "applied"
)

// existingResource is what was there before an apply.
type existingResource struct {
	etag string
	// err is that of reading it.
	err error
	// undeleted says that it was deleted.
	undeleted bool
}

// change says what an apply made of it that came to a resource with this etag, or would make of
// it. An etag is a hash of the content, so the same one is the same content.
//
// It goes by what was read before the update. Somebody else's change in between makes an
// unchanged resource an updated one here, and nothing else wrong.
func (e existingResource) change(etag string) string {
	if e.undeleted {
		return undeleted
	}
	switch status.Code(e.err) {
	case codes.OK:
		if e.etag == etag {
			return unchanged
		}
		return updated
	case codes.NotFound:
		return created
	default:
		return applied
	}
}

// finishApply waits for the operation of an apply, printing its progress, and says what it did.
//
// err is that of the call which made the operation, so that callers need not look at it.
func (c *Client) finishApply(ctx context.Context, name string, before existingResource, op *longrunningpb.Operation, err error) error {
	if err != nil {
		return err
	}
	if op, err = c.await(ctx, op); err != nil {
		return err
	}
	etag := etagOf(op)
	switch {
	case c.Output == "json" && !op.Done: // what it comes to is not known yet
		return c.print(op)
	case c.Output == "json":
		return terminal.WriteJSONWith(c.Out, op, terminal.Field{Name: "change", Value: before.change(etag)}, terminal.Field{Name: "etag", Value: etag})
	case !op.Done:
		_, err = fmt.Fprintln(c.Out, "stored:", op.Name)
	// A validation has an operation that is stored nowhere, and so has no name.
	case op.Name == "":
		_, err = fmt.Fprintf(c.Out, "valid; %s would be %s; nothing was changed\n", name, before.change(etag))
	default:
		_, err = fmt.Fprintf(c.Out, "%s %s; %s; its etag is %s\n", before.change(etag), name, doneOn(commonMetadata(op).GetAppliedNodeCount()), etag)
	}
	return err
}

// etagOf is that of the resource in the response of an operation; empty if there is none, as for
// a creation that is validated only.
func etagOf(op *longrunningpb.Operation) string {
	response, err := op.GetResponse().UnmarshalNew()
	if err != nil {
		return ""
	}
	resource, _ := response.(interface{ GetEtag() string })
	if resource == nil {
		return ""
	}
	return resource.GetEtag()
}

// finishConfig shows the configuration of a location after an apply, and says what that did.
//
// A configuration is no operation: no sidecar has to apply it.
func (c *Client) finishConfig(before existingResource, validateOnly bool, after *adminpb.Config, err error) error {
	if err != nil {
		return err
	}
	change := before.change(after.Etag)
	if c.Output == "json" {
		return terminal.WriteJSONWith(c.Out, after, terminal.Field{Name: "change", Value: change})
	}
	if validateOnly {
		fmt.Fprintf(c.Out, "valid; %s would be %s; nothing was changed:\n", after.Name, change)
	} else {
		fmt.Fprintf(c.Out, "%s %s:\n", change, after.Name)
	}
	return c.showConfig(after, nil)
}
