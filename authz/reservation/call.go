package reservation

import (
	"strings"

	"understudy/authz"
	"understudy/rego"
)

// call is one thing that Blazar calls for.
type call struct {
	// name is the last segment of the path.
	name      string
	operation authz.Operation
}

// calls are all of them.
var calls = []call{
	{"check-create", authz.OperationCheckCreate},
	{"check-update", authz.OperationCheckUpdate},
	{"on-end", authz.OperationOnEnd},
}

// version is the segment before the name of a call. It may be left out.
const version = "/v1"

// find returns the call of a path.
func (h *Handler) find(path string) (call, bool) {
	rest, ok := strings.CutPrefix(path, h.base)
	if !ok {
		return call{}, false
	}
	rest = strings.TrimPrefix(rest, version)
	for _, c := range calls {
		if rest == "/"+c.name {
			return c, true
		}
	}
	return call{}, false
}

// tells reports whether the call tells of something rather than asks for leave.
func (c call) tells() bool { return c.operation == authz.OperationOnEnd }

// payload is what the body of a call says.
type payload struct {
	reservation *authz.Reservation
	// user is the one who makes the request, or on whose lease it ends.
	user  string
	input rego.Input
}

// The fields of a body.
const (
	fieldContext = "context"
	fieldLease   = "lease"
	fieldCurrent = "current_lease"
)

// payload reads a body. The error is an *authz.BadRequest.
func (c call) payload(body any) (payload, error) {
	document, ok := body.(map[string]any)
	if !ok {
		return payload{}, badRequest("The body is %s; it has to be an object with %s.", kindOf(body), strings.Join(c.fields(), ", "))
	}
	input := map[string]any{"operation": string(c.operation)}
	objects := make(map[string]map[string]any)
	for _, name := range c.fields() {
		object, ok := document[name].(map[string]any)
		if !ok {
			return payload{}, badRequest("The field %s is %s; it has to be an object.", name, kindOf(document[name]))
		}
		input[name], objects[name] = object, object
	}
	made, err := rego.NewInput(input)
	if err != nil {
		return payload{}, errNumber
	}
	who := objects[fieldContext]
	return payload{
		reservation: newReservation(who, objects[fieldLease], objects[fieldCurrent]),
		user:        text(who["user_id"]),
		input:       made,
	}, nil
}

// fields are those that the body needs.
func (c call) fields() []string {
	if c.operation == authz.OperationCheckUpdate {
		return []string{fieldContext, fieldLease, fieldCurrent}
	}
	return []string{fieldContext, fieldLease}
}

// newReservation returns the facts of a call. Current is nil but for an update.
func newReservation(who, lease, current map[string]any) *authz.Reservation {
	r := &authz.Reservation{Context: who, Lease: lease, Current: current, Project: text(who["project_id"])}
	var wrong [2]string
	r.Start, wrong[0] = dateOf("start", startFields, lease, current)
	r.End, wrong[1] = dateOf("end", endFields, lease, current)
	r.Invalid = strings.TrimSpace(wrong[0] + " " + wrong[1])
	return r
}

// text returns a string, empty if the value is none.
func text(value any) string {
	s, _ := value.(string)
	return s
}

// kindOf names the type of a value in the words of JSON.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "missing"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	default:
		return "a number"
	}
}
