package cli

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	adminpb "understudy/admin/v1"
	"understudy/authz/background"
	"understudy/cmd/understudy/terminal"
)

// await waits for an operation, printing its progress, unless the user does not
// want to.
//
// It asks the server to wait, two seconds at a time, rather than again and again: an
// operation is done within milliseconds where all sidecars are well.
//
// There is no limit of time: a sidecar that is live and does not apply a change is shown in the
// progress, and stops to count ten seconds after it is gone. Each call of two seconds fits the
// deadlines of proxies in between, and shows progress.
//
// The change is stored, so an API that does not answer for a while, or whose store does not, is asked again.
func (c *Client) await(ctx context.Context, op *longrunningpb.Operation) (*longrunningpb.Operation, error) {
	pause := firstPoll
	for c.wait && !op.Done {
		fmt.Fprintln(c.Err, c.progressOf(op))
		next, err := c.operations.WaitOperation(ctx, &longrunningpb.WaitOperationRequest{
			Name: op.Name, Timeout: durationpb.New(2 * time.Second),
		})
		switch {
		case err == nil:
			op, pause = next, firstPoll
		case ctx.Err() != nil || status.Code(err) != codes.Unavailable:
			return op, leftOff(ctx, op.Name, err)
		default:
			fmt.Fprintln(c.Err, c.noAnswer())
			background.Sleep(ctx, pause)
			pause = min(2*pause, pollTime)
		}
	}
	// AIP-151: an operation that has failed is an answer, and its error has the details of any other.
	if failure := op.GetError(); failure != nil {
		return op, status.FromProto(failure).Err()
	}
	return op, nil
}

// finish waits for an operation, printing its progress, and prints its result.
//
// err is that of the call which made the operation, so that a command ends with
// `return c.finish(ctx, op, err)`.
func (c *Client) finish(ctx context.Context, op *longrunningpb.Operation, err error) error {
	if err != nil {
		return err
	}
	if op, err = c.await(ctx, op); err != nil {
		return err
	}
	if etag := etagOf(op); c.Output == "json" && op.Done && etag != "" {
		return terminal.WriteJSONWith(c.Out, op, terminal.Field{Name: "etag", Value: etag})
	}
	if c.Output == "json" {
		return c.print(op)
	}
	if !op.Done {
		_, err = fmt.Fprintln(c.Out, "stored:", op.Name)
		return err
	}
	_, err = fmt.Fprintln(c.Out, c.summaryOf(op))
	return err
}

// commonMetadata returns what all metadata of operations have.
func commonMetadata(op *longrunningpb.Operation) *adminpb.OperationMetadata {
	m, err := op.GetMetadata().UnmarshalNew()
	if err != nil {
		return nil
	}
	// A commit and a promotion have more metadata, with the common ones in a field.
	if wrapped, ok := m.(interface {
		GetOperation() *adminpb.OperationMetadata
	}); ok {
		return wrapped.GetOperation()
	}
	common, _ := m.(*adminpb.OperationMetadata)
	return common
}

// verbOf is what an operation does, as people see it.
//
// See [Client.creates].
func (c *Client) verbOf(m *adminpb.OperationMetadata) string {
	if c.creates && m.GetVerb() == "update" {
		return "create"
	}
	return m.GetVerb()
}

// progressOf is one line about an operation that is not done. It goes to standard error,
// so that standard output has the result alone.
func (c *Client) progressOf(op *longrunningpb.Operation) string {
	m := commonMetadata(op)
	return fmt.Sprintf("%s of %s: %d of %d sidecars have applied it", c.verbOf(m), m.GetTarget(),
		m.GetAppliedNodeCount(), m.GetNodeCount())
}

// summaryOf is the line at the end. An operation without a name was a validation: nothing
// is stored, and there is nothing to ask about later.
//
// The etag is what the next change can name, so that it is made to this version and no other.
func (c *Client) summaryOf(op *longrunningpb.Operation) string {
	if op.Name == "" {
		return "valid; nothing was changed"
	}
	m := commonMetadata(op)
	text := fmt.Sprintf("%s of %s is %s", c.verbOf(m), m.GetTarget(), doneOn(m.GetAppliedNodeCount()))
	response, err := op.GetResponse().UnmarshalNew()
	if err != nil {
		return text
	}
	if r, ok := response.(interface{ GetEtag() string }); ok && r.GetEtag() != "" {
		text += "; its etag is " + r.GetEtag()
	}
	return text
}

// doneOn says where a change is in force.
//
// Nobody live is no error: a location may be filled before its first sidecar starts. It is said, since
// a mistyped location looks the same.
func doneOn(sidecars int32) string {
	switch sidecars {
	case 0:
		return "stored; no sidecar is live in the location"
	case 1:
		return "done on 1 sidecar"
	default:
		return fmt.Sprintf("done on %d sidecars", sidecars)
	}
}
