package logcodec

import (
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Batch are records to export with one call. As the message of a call it is an
// ExportLogsServiceRequest.
type Batch []sdklog.Record

// Codec is the codec of a call whose message is a [Batch]; of any other message it is that of
// gRPC. What is no UTF-8 in a text becomes U+FFFD: a collector would refuse all of a batch
// for it. It is safe for concurrent use.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// standard is gRPC's codec.
var standard = encoding.GetCodecV2(proto.Name)

// Marshal encodes a message. Its buffer goes back to be used again when gRPC has sent it.
func (Codec) Marshal(message any) (mem.BufferSlice, error) {
	batch, ok := message.(Batch)
	if !ok {
		return standard.Marshal(message)
	}
	buffer := buffers.Get(0)
	*buffer = appendRequest(*buffer, batch)
	return mem.BufferSlice{mem.NewBuffer(buffer, buffers)}, nil
}

// Unmarshal decodes what the collector answers.
func (Codec) Unmarshal(data mem.BufferSlice, message any) error {
	return standard.Unmarshal(data, message)
}

// Name is that of gRPC's codec: it is the content type.
func (Codec) Name() string { return proto.Name }

// buffers are those of batches that were sent.
var buffers = &pool{}

// pool implements mem.BufferPool.
type pool struct{ free sync.Pool }

// maxKept is the size of the largest buffer that is kept, in bytes.
const maxKept = 4 << 20

// Get returns a buffer of a length.
func (p *pool) Get(length int) *[]byte {
	buffer, ok := p.free.Get().(*[]byte)
	if !ok || cap(*buffer) < length {
		buffer = new([]byte)
		*buffer = make([]byte, length)
	}
	*buffer = (*buffer)[:length]
	return buffer
}

// Put takes a buffer that nobody reads any more.
func (p *pool) Put(buffer *[]byte) {
	if cap(*buffer) <= maxKept {
		p.free.Put(buffer)
	}
}
