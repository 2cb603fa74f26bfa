package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	// agreementChecks are sent to all servers before any is measured: enough to meet
	// all methods, roles and expired tokens, and done in a fraction of a second.
	agreementChecks = 400
	// leastMixed is how many of them must be allowed, and how many denied: a policy
	// that always says the same would measure nothing.
	leastMixed = agreementChecks / 20
)

// effect is the part of a CheckResponse that has to be the same for all servers: what
// Envoy acts on. Metadata is not in it: servers put IDs of their own there.
type effect struct {
	allowed bool
	status  int32
	headers string // name: value, in order, the removed ones last
	body    string
}

func (e effect) String() string {
	effect := map[bool]string{true: "ALLOW", false: "DENY"}[e.allowed]
	return fmt.Sprintf("%s %d %q %q", effect, e.status, e.headers, e.body)
}

// effectOf takes it from a response. Headers are sorted, since their order comes from
// the iteration of a map in some servers. Those for the request and those for the
// response count alike.
func effectOf(r *authv3.CheckResponse) effect {
	e := effect{allowed: codes.Code(r.GetStatus().GetCode()) == codes.OK}
	var headers []*corev3.HeaderValueOption
	if e.allowed {
		headers = append(r.GetOkResponse().GetHeaders(), r.GetOkResponse().GetResponseHeadersToAdd()...)
	} else {
		headers = r.GetDeniedResponse().GetHeaders()
		e.body = r.GetDeniedResponse().GetBody()
		// A denial without a status is 403 in Envoy (ext_authz.proto,
		// DeniedHttpResponse.status).
		e.status = cmp.Or(int32(r.GetDeniedResponse().GetStatus().GetCode()), 403)
	}
	var lines []string
	for _, h := range headers {
		lines = append(lines, h.GetHeader().GetKey()+": "+h.GetHeader().GetValue()+string(h.GetHeader().GetRawValue()))
	}
	slices.Sort(lines)
	e.headers = strings.Join(append(lines, r.GetOkResponse().GetHeadersToRemove()...), "\n")
	return e
}

// agree sends the same requests to all servers but the no-op, and fails at the first
// that two answer differently. Without it a server that misreads the policy would look
// fast. Each request is sent twice, since the second answer may come from a cache.
//
// It also fails if nearly all requests have the same result: then the servers could
// agree while one of them is not evaluating the policy at all. Foreign servers
// (--target) are compared like the others.
func (f *fleet) agree(ctx context.Context, t *traffic) error {
	requests := t.newStream(0)
	var deciding []*target
	for _, t := range f.targets {
		if t.name != "noop" {
			deciding = append(deciding, t)
		}
	}
	effects := make(map[bool]int)
	for range agreementChecks {
		request := requests.next(nil)
		want, err := agreeOn(ctx, deciding, request)
		if err != nil {
			return err
		}
		effects[want.allowed]++
	}
	if len(deciding) > 0 && min(effects[true], effects[false]) < leastMixed {
		return fmt.Errorf("of %d requests %d were allowed and %d denied: both have to happen",
			agreementChecks, effects[true], effects[false])
	}
	return nil
}

// agreeOn returns what all servers answer to one request. The error names both servers,
// both answers and the request as JSON, so that it can be sent again by hand.
func agreeOn(ctx context.Context, deciding []*target, request []byte) (want effect, err error) {
	for i, t := range slices.Concat(deciding, deciding) {
		var content []byte
		if err := t.client.check(ctx, 0, &request, &content); err != nil {
			return want, fmt.Errorf("asking %s: %w", t.name, err)
		}
		response := &authv3.CheckResponse{}
		if err := proto.Unmarshal(content, response); err != nil {
			return want, fmt.Errorf("%s sent no CheckResponse: %w", t.name, err)
		}
		switch got := effectOf(response); {
		case i == 0:
			want = got
		case got != want:
			return want, fmt.Errorf("%s says %s, %s says %s\nto %s\nwith the metadata %v",
				deciding[0].name, want, t.name, got, shown(request), response.GetDynamicMetadata())
		}
	}
	return want, nil
}

// shown is a request as a person reads it.
func shown(request []byte) string {
	r := &authv3.CheckRequest{}
	if err := proto.Unmarshal(request, r); err != nil {
		return err.Error()
	}
	return protojson.Format(r)
}
