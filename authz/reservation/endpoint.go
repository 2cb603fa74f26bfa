package reservation

import (
	"strings"

	"understudy/authz"
	"understudy/rego"
)

// endpoint is one of the three that Blazar's ExternalServiceFilter calls.
type endpoint struct {
	// name is the last segment of the path.
	name      string
	operation authz.Operation
}

// endpoints are all of them.
var endpoints = []endpoint{
	{"check-create", authz.OperationCheckCreate},
	{"check-update", authz.OperationCheckUpdate},
	{"on-end", authz.OperationOnEnd},
}

// version is the segment before the name of an endpoint. It may be left out.
const version = "/v1"

// find returns the endpoint of a path. The prefixes are cut off one after the other, as
// the version may be missing; after that the path has to match exactly.
func (h *Handler) find(path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, h.base)
	if !ok {
		return endpoint{}, false
	}
	rest = strings.TrimPrefix(rest, version)
	for _, e := range endpoints {
		if rest == "/"+e.name {
			return e, true
		}
	}
	return endpoint{}, false
}

// notifies reports whether the endpoint is for a notification, which no decision changes.
func (e endpoint) notifies() bool { return e.operation == authz.OperationOnEnd }

// payload is the content of a body: the facts that filters and records need, and the
// input of policies.
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

// payload reads a body. The input has the fields that the endpoint needs and no others,
// as they were sent. The error is an *authz.BadRequest: a sentence for anyone who runs
// Blazar, with the name of the field.
func (e endpoint) payload(body any) (payload, error) {
	document, ok := body.(map[string]any)
	if !ok {
		return payload{}, badRequest("The body is %s; it has to be an object with %s.", kindOf(body), strings.Join(e.fields(), ", "))
	}
	input := map[string]any{"operation": string(e.operation)}
	objects := make(map[string]map[string]any)
	for _, name := range e.fields() {
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
func (e endpoint) fields() []string {
	if e.operation == authz.OperationCheckUpdate {
		return []string{fieldContext, fieldLease, fieldCurrent}
	}
	return []string{fieldContext, fieldLease}
}

// newReservation returns the facts of a request. Current is nil but for an update. A
// date that cannot be read is kept as a sentence (Invalid) instead of failing: only a
// filter that needs dates denies by it.
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
