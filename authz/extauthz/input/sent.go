package input

import (
	"encoding/binary"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// bodySize is the size of the body as it was sent, in bytes.
func (a *readRequest) bodySize() int {
	return len(at.body.of(&a.check)) + len(at.rawBody.of(&a.check).text)
}

// leastLeftOut is the size of the smallest body that is left out of a request in which it is
// not read, in bytes: to copy a smaller one takes less time than to leave it out.
const leastLeftOut = 4 << 10

// CheckRequest is of [authz.Sent]. What the lazy decoder does not read is always whole.
func (a *readRequest) CheckRequest(body bool) string {
	if body || a.check.full || a.bodySize() < leastLeftOut {
		return a.wire
	}
	return string(appendWithoutBody(make([]byte, 0, len(a.wire)-a.bodySize()), a.wire, toBody))
}

// toBody are the numbers of the fields of a CheckRequest that lead to the message which has the
// body.
var toBody = numbersOf((&authv3.CheckRequest{}).ProtoReflect().Descriptor(), "attributes", "request", "http")

// numbersOf returns the numbers of fields of messages, each of which is in the one before.
func numbersOf(message protoreflect.MessageDescriptor, names ...protoreflect.Name) (out []uint64) {
	for _, name := range names {
		f := message.Fields().ByName(name)
		out = append(out, uint64(f.Number()))
		message = f.Message()
	}
	return out
}

// isBody reports whether a field is the body, if it is in the message that has it: no path leads
// further.
func isBody(number uint64, path []uint64) bool {
	return len(path) == 0 && (number == uint64(at.body.Number()) || number == uint64(at.rawBody.Number()))
}

// leads reports whether a field is the next message on a path.
func leads(number uint64, path []uint64) bool { return len(path) > 0 && number == path[0] }

// appendWithoutBody appends a valid message without the body, which is in the message that a path
// leads to: of several, in each.
func appendWithoutBody(b []byte, wire string, path []uint64) []byte {
	for len(wire) > 0 {
		number, content, rest, ok := next(wire)
		switch {
		case !ok:
			return append(b, wire...)
		case isBody(number, path):
		case leads(number, path):
			below := appendWithoutBody(make([]byte, 0, leastLeftOut), content.text, path[1:])
			b = binary.AppendUvarint(binary.AppendUvarint(b, number<<3|wireBytes), uint64(len(below)))
			b = append(b, below...)
		default:
			b = append(b, wire[:len(wire)-len(rest)]...)
		}
		wire = rest
	}
	return b
}
