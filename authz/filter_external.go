package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// externalFilter asks an external HTTP service, in the way of Blazar's
// ExternalServiceFilter. Without an endpoint it is disabled.
type externalFilter struct {
	// endpoints :: operation → where it is asked about. Nil means disabled.
	endpoints    map[Operation]endpoint
	allowOnError bool
}

// endpoint is one URL of a service.
type endpoint struct {
	url *url.URL
	// text is the same.
	text string
}

// calledFor :: operation → the last part of the URL that is called.
var calledFor = map[Operation]string{
	OperationCheck:       "check",
	OperationCheckCreate: "check-create",
	OperationCheckUpdate: "check-update",
	OperationOnEnd:       "on-end",
}

func newExternalFilter(_ *rego.Program, r *adminpb.PolicyRule) filter {
	config := r.GetExternalService()
	f := externalFilter{allowOnError: config.GetAllowOnError()}
	base, err := url.Parse(config.GetEndpointUrl())
	if config.GetEndpointUrl() == "" || err != nil {
		return f
	}
	f.endpoints = make(map[Operation]endpoint)
	for operation, name := range calledFor {
		to := base.JoinPath("v1", name)
		f.endpoints[operation] = endpoint{to, to.String()}
	}
	return f
}

// maxEndpoint bounds an endpoint_url, in bytes.
const maxEndpoint = 2048

// externalProblems returns what is wrong with the endpoint.
func externalProblems(field string, r *adminpb.PolicyRule) []Violation {
	text := r.GetExternalService().GetEndpointUrl()
	if text == "" {
		return nil
	}
	field += ".endpoint_url"
	u, err := url.Parse(text)
	if err != nil {
		return []Violation{{Field: field, Description: "The endpoint is no URL. Write it like https://usage.example.com."}}
	}
	var out []Violation
	for _, rule := range []struct {
		broken      bool
		description string
	}{
		{len(text) > maxEndpoint, fmt.Sprintf("The URL has %d bytes; the limit is %d. Shorten it.", len(text), maxEndpoint)},
		{u.Scheme != "https" && u.Scheme != "http", "The URL begins with another scheme. Write https:// or http://."},
		{!validHost(u), "The URL has no host, or one that is none. Name a host in ASCII, and a port from 1 to 65535 if any."},
		{u.User != nil, "The URL has a user or a password, which everyone who may read the policy would see. " +
			"Take it out; the server's configuration has a token for the host."},
		{u.RawQuery != "" || u.ForceQuery, "The URL has a query, but the paths of the calls are put at its end. Take it out."},
		{strings.Contains(text, "#"), "The URL has a fragment, which is never sent. Take it out."},
	} {
		if rule.broken {
			out = append(out, Violation{Field: field, Description: rule.description})
		}
	}
	return out
}

// validHost reports whether a URL names a host, and a port that there can be.
func validHost(u *url.URL) bool {
	host := u.Hostname()
	if host == "" || u.Opaque != "" || strings.HasSuffix(u.Host, ":") {
		return false
	}
	for _, c := range []byte(host) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	if u.Port() == "" {
		return true
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// callsService reports whether a filter calls an external service.
func callsService(f filter) bool {
	e, ok := f.(externalFilter)
	return ok && e.endpoints != nil
}

// mayRead is so of the attributes if there is a service: they are what it is sent of a check.
func (f externalFilter) mayRead(place ...string) bool {
	return f.endpoints != nil && (len(place) == 0 || place[0] == "attributes")
}

// recordable is false if there is a service: it may answer otherwise each time.
func (f externalFilter) recordable() bool { return f.endpoints == nil }

func (f externalFilter) deterministic() bool { return f.endpoints == nil }

func (f externalFilter) check(ctx context.Context, q evaluation) Decision {
	// A service that is notified of an end may refund it: an experiment must not.
	if f.endpoints == nil || q.Shadow && q.request.Operation == OperationOnEnd {
		return pass
	}
	to, ok := f.endpoints[q.request.Operation]
	if !ok {
		return Failed(FailureError, "There is no call of an external service for this operation.")
	}
	body, err := externalBody(q)
	if err != nil {
		return Unreadable(err)
	}
	ctx, cancel := q.outside(ctx)
	defer cancel()
	return f.decision(q.ask(ctx, to, body))
}

// decision reads a reply. Only a service that gave no decision is overruled.
func (f externalFilter) decision(r ServiceReply) Decision {
	d := pass
	switch {
	case r.Outcome == ServicePasses:
	case r.Outcome == ServiceDenies:
		d = denied(r.Message)
	case r.Outcome == ServiceNotCalled:
		d = Failed(FailureNotCalled, "The external service is not called for an experiment: "+
			"the live policy did not ask it the same, and this server allows no calls for experiments.")
	case r.Outcome == ServiceCanceled:
		d = Failed(FailureCanceled, reasonCanceled)
	case !f.allowOnError:
		d = Failed(FailureExternal, "The external service gave no decision.")
	}
	return d
}

// externalBody returns the JSON that is sent: what Blazar sends about a reservation,
// or the request that Envoy asks about, with what else is known of it.
func externalBody(q evaluation) ([]byte, error) {
	document := make(map[string]any)
	switch r := q.request; {
	case r.Reservation != nil:
		document["context"], document["lease"] = r.Reservation.Context, r.Reservation.Lease
		if r.Operation == OperationCheckUpdate {
			document["current_lease"] = r.Reservation.Current
		}
	case r.Operation != OperationCheck:
		return nil, &BadRequest{Reason: "There is no reservation to ask about."}
	default:
		attributes, err := attributesOf(q)
		if err != nil {
			return nil, err
		}
		document["request"] = attributes
		document["context"] = map[string]any{
			"decision_id": r.ID, "method": r.Method, "host": r.Host, "path": r.Path, "principal": r.Principal,
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encoding the question: %w", err)
	}
	return out.Bytes(), nil
}

// attributesOf returns a copy of the input's attributes; null if it has none.
func attributesOf(q evaluation) (any, error) {
	input, err := q.input(q.Reading)
	if err != nil {
		return nil, err
	}
	document, err := input.Document()
	if err != nil {
		return nil, fmt.Errorf("reading the input document: %w", err)
	}
	object, _ := document.(map[string]any)
	return object["attributes"], nil
}
