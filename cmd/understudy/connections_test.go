package main

import (
	"bytes"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	healthservice "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"understudy/cmd/understudy/port"
)

// TestACheckCostsNoPing speaks HTTP/2 by hand, as far as a call needs it: the server
// sends headers, data and trailers, and nothing that the client would have to answer.
func TestACheckCostsNoPing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(port.DefaultConnections.Options()...)
	grpc_health_v1.RegisterHealthServer(server, healthservice.NewServer())
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for id := uint32(1); id < 21; id += 2 {
		askOnce(t, framer, id)
	}
}

// askOnce makes one call and reads what comes until its end.
func askOnce(t *testing.T, framer *http2.Framer, id uint32) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Check"}, {":authority", "understudy"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteData(id, true, make([]byte, 5)); err != nil { // an empty message
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			t.Error("the server sends a PING with a check")
		case *http2.SettingsFrame:
			if err := acknowledge(framer, f); err != nil {
				t.Fatal(err)
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				return
			}
		}
	}
}

func acknowledge(framer *http2.Framer, f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	return framer.WriteSettingsAck()
}
