package child

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"understudy/authz"
	"understudy/authz/extauthz/body"
	"understudy/authz/extauthz/input"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
)

// requests makes requests of messages. Those of Envoy's it reads as the parent does, by the
// same descriptors and bounds, so that the one has no input where the other would have none. It
// is safe for concurrent use.
type requests struct {
	reader input.Reader
	// bodies bounds what is read of bodies for comparisons, and verifying what is for live
	// decisions that are made again: who sends large bodies keeps none of these from being
	// verified.
	bodies, verifying *authz.BodyMemory
}

// bodyPart is which part of the memory of the process may be taken by what is read of bodies, for
// either: one in so many. Who sends large bodies so costs comparisons, and no experiment its process.
const bodyPart = 4

func newRequests(h wire.Hello) (*requests, error) {
	limit := cmp.Or(h.BodyMemory, authz.DefaultBodyMemory)
	room := limit
	if h.Memory > 0 {
		room = min(room, h.Memory/bodyPart)
	}
	r := &requests{
		reader:    input.Reader{Bodies: body.Parser{DuplicateKeys: h.DuplicateKeys}},
		bodies:    authz.NewBodyMemory(limit).OffPath(min(limit/2, room)),
		verifying: authz.NewBodyMemory(limit).OffPath(room),
	}
	if len(h.Descriptors) == 0 {
		return r, nil
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(h.Descriptors, set); err != nil {
		return nil, fmt.Errorf("reading the parent's descriptor set: %w", err)
	}
	var err error
	if r.reader.Bodies.Messages, err = body.NewMessages(set); err != nil {
		return nil, fmt.Errorf("using the parent's descriptor set: %w", err)
	}
	return r, nil
}

// read returns the request of a message, and the reading that bounds what is made of it, which
// ends with End. The error is that of bytes that are no CheckRequest.
func (rs *requests) read(ctx context.Context, q wire.DecisionRequest) (*authz.Request, *authz.ReadBudget, error) {
	bodies := rs.bodies
	if q.Plain {
		bodies = rs.verifying
	}
	var r *authz.Request
	switch asked := q.Asked.(type) {
	case wire.Check:
		var err error
		if r, _, err = rs.reader.ReadString(string(asked)); err != nil {
			return nil, nil, err
		}
	case wire.Document:
		r = documented(asked)
	}
	r.ID, r.Time = q.ID, q.Time
	return r, bodies.ReadOffPath(ctx, r), nil
}

// documented returns the request of a document.
func documented(d wire.Document) *authz.Request {
	r := d.Facts.Request()
	r.Source = func(*authz.ReadBudget) (rego.Input, error) {
		if d.Unreadable != nil {
			return rego.Input{}, d.Unreadable
		}
		return rego.ParseInput(d.Input)
	}
	return r
}
