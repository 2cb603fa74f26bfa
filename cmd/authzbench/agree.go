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
	// agreementChecks are sent to all servers before any is measured.
	agreementChecks = 400
	// leastMixed is how many of them must be allowed, and how many denied: a policy
	// that always says the same would measure nothing.
	leastMixed = agreementChecks / 20
)

// answer is what of a CheckResponse has to be the same everywhere. Metadata is not
// in it: servers put IDs of their own there.
type answer struct {
	allowed bool
	status  int32
	headers string // name: value, in order, the removed ones last
	body    string
}

func (a answer) String() string {
	verdict := map[bool]string{true: "ALLOW", false: "DENY"}[a.allowed]
	return fmt.Sprintf("%s %d %q %q", verdict, a.status, a.headers, a.body)
}

func answerOf(r *authv3.CheckResponse) answer {
	a := answer{allowed: codes.Code(r.GetStatus().GetCode()) == codes.OK}
	var headers []*corev3.HeaderValueOption
	if a.allowed {
		headers = append(r.GetOkResponse().GetHeaders(), r.GetOkResponse().GetResponseHeadersToAdd()...)
	} else {
		headers = r.GetDeniedResponse().GetHeaders()
		a.body = r.GetDeniedResponse().GetBody()
		// Envoy's own choice where there is none.
		a.status = cmp.Or(int32(r.GetDeniedResponse().GetStatus().GetCode()), 403)
	}
	var lines []string
	for _, h := range headers {
		lines = append(lines, h.GetHeader().GetKey()+": "+h.GetHeader().GetValue()+string(h.GetHeader().GetRawValue()))
	}
	slices.Sort(lines)
	a.headers = strings.Join(append(lines, r.GetOkResponse().GetHeadersToRemove()...), "\n")
	return a
}

// agree sends the same requests to all servers but the no-op, and fails at the
// first that two answer differently. Each request is sent twice: a server may
// remember.
func (f *fleet) agree(ctx context.Context, t *traffic) error {
	requests := t.newStream(0)
	var deciding []*target
	for _, t := range f.targets {
		if t.name != "noop" {
			deciding = append(deciding, t)
		}
	}
	verdicts := make(map[bool]int)
	for range agreementChecks {
		request := requests.next(nil)
		want, err := agreeOn(ctx, deciding, request)
		if err != nil {
			return err
		}
		verdicts[want.allowed]++
	}
	if len(deciding) > 0 && min(verdicts[true], verdicts[false]) < leastMixed {
		return fmt.Errorf("of %d requests %d were allowed and %d denied: both have to happen",
			agreementChecks, verdicts[true], verdicts[false])
	}
	return nil
}

// agreeOn returns the answer that all servers give.
func agreeOn(ctx context.Context, deciding []*target, request []byte) (want answer, err error) {
	for i, t := range slices.Concat(deciding, deciding) {
		var content []byte
		if err := t.client.check(ctx, 0, &request, &content); err != nil {
			return want, fmt.Errorf("asking %s: %w", t.name, err)
		}
		response := &authv3.CheckResponse{}
		if err := proto.Unmarshal(content, response); err != nil {
			return want, fmt.Errorf("%s sent no CheckResponse: %w", t.name, err)
		}
		switch got := answerOf(response); {
		case i == 0:
			want = got
		case got != want:
			return want, fmt.Errorf("%s says %s, %s says %s\nto %s\nwith the metadata %v",
				deciding[0].name, want, t.name, got, shown(request), response.GetDynamicMetadata())
		}
	}
	return want, nil
}

func shown(request []byte) string {
	r := &authv3.CheckRequest{}
	if err := proto.Unmarshal(request, r); err != nil {
		return err.Error()
	}
	return protojson.Format(r)
}
