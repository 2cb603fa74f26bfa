package input

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
)

// ReadJSON is Read for a CheckRequest in protojson, as recordings of requests have it. Fields
// that are not known here are left out, for they may be those of a newer Envoy.
func (r *Reader) ReadJSON(text []byte) (*authz.Request, *Check, error) {
	message := &authv3.CheckRequest{}
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, message) != nil {
		return nil, nil, ErrNotACheck
	}
	wire, err := proto.Marshal(message)
	if err != nil {
		return nil, nil, ErrNotACheck
	}
	return r.Read(wire)
}
