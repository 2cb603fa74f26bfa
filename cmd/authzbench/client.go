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
// measure itself.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("the raw codec takes *[]byte, not %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

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

// client asks one server over several connections.
type client struct {
	connections []*grpc.ClientConn
}

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

// check sends a request on the connection of a worker and puts the answer into
// response.
func (c *client) check(ctx context.Context, worker int, request, response *[]byte) error {
	return c.connections[worker%len(c.connections)].Invoke(ctx, checkMethod, request, response)
}

// allowed reports whether the status of an encoded CheckResponse is OK. It reads no
// more than that.
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
