package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

const checkMethod = "/envoy.service.auth.v3.Authorization/Check"

// rawCodec sends and receives bytes as they are: a generator that marshals would
// measure itself, and the requests are encoded already (wire.go). It names itself
// "proto", so that servers see the usual content type and decode as ever.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

// Marshal hands the caller's bytes to gRPC without a copy. gRPC reads them until the
// call returns, so that a sender may use its buffer again for the next request.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("the raw codec takes *[]byte, not %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

// Unmarshal copies into the caller's buffer, which grows to the largest response and
// then stays: a generator that allocates has garbage collections in its latencies.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("the raw codec takes *[]byte, not %T", v)
	}
	size := data.Len()
	if cap(*b) < size {
		*b = make([]byte, size)
	}
	*b = (*b)[:size]
	data.CopyTo(*b)
	return nil
}

// client calls one server over several connections. HTTP/2 carries many calls on one
// connection, but one reader and one writer goroutine serve it at each end, so that a
// single connection would be the bottleneck; Envoy has one per worker thread as well.
type client struct {
	connections []*grpc.ClientConn
}

// dial does not wait until the server accepts: gRPC connects with the first call.
func dial(address string, connections int) (*client, error) {
	c := &client{}
	for range connections {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.connections = append(c.connections, conn)
	}
	return c, nil
}

func (c *client) close() error {
	var errs []error
	for _, conn := range c.connections {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// check sends a request on the connection of a worker and puts the response into
// response, both encoded. Workers are spread evenly over the connections, and each
// stays on its own. It is safe for concurrent use.
func (c *client) check(ctx context.Context, worker int, request, response *[]byte) error {
	return c.connections[worker%len(c.connections)].Invoke(ctx, checkMethod, request, response)
}

// allowed reports whether the status of an encoded CheckResponse is OK. It reads the
// first field only, google.rpc.Status.code, since decoding a whole response costs the
// generator more than sending the request. In proto3 zero is not written: no status, or
// a status without a code, is OK.
func allowed(response []byte) bool {
	number, kind, n := protowire.ConsumeTag(response)
	if n < 0 || number != 1 || kind != protowire.BytesType {
		return true
	}
	status, m := protowire.ConsumeBytes(response[n:])
	if m < 0 || len(status) == 0 {
		return true
	}
	number, kind, n = protowire.ConsumeTag(status)
	if n < 0 || number != 1 || kind != protowire.VarintType {
		return true
	}
	code, _ := protowire.ConsumeVarint(status[n:])
	return code == 0
}
