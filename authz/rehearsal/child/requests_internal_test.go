package child

import (
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/rehearsal/wire"
)

// posting is a POST of a list of so many numbers.
func posting(t *testing.T, values int) wire.DecisionRequest {
	t.Helper()
	sent, err := proto.Marshal(checktest.HTTP(&authv3.AttributeContext_HttpRequest{
		Method: "POST", Path: "/", Headers: map[string]string{"content-type": "application/json"},
		Body: "[" + strings.Repeat("1,", values-1) + "1]",
	}))
	if err != nil {
		t.Fatal(err)
	}
	return wire.DecisionRequest{Asked: wire.Check(sent)}
}

// TestBodiesLeaveRoomInTheProcess: of a body, and of all of them at a time, no more is read than a
// quarter of what the process may use, however much live decisions may; and what they may never
// read, or may, is no other than theirs.
func TestBodiesLeaveRoomInTheProcess(t *testing.T) {
	for _, tt := range []struct {
		memory, bodies int64
		values         int
		// want is the failure of one, and next to that of another at the same time.
		want, beside authz.Failure
	}{
		{memory: 64 << 20, bodies: 1 << 40, values: 10_000},
		{memory: 64 << 20, bodies: 1 << 40, values: 20_000, beside: authz.FailureOverloaded},
		{memory: 64 << 20, bodies: 1 << 40, values: 40_000, want: authz.FailureOverloaded, beside: authz.FailureOverloaded},
		{memory: 0, bodies: 1 << 40, values: 40_000},
		{memory: 1 << 40, bodies: 0, values: 40_000, beside: authz.FailureOverloaded}, // 64 MiB
		{memory: 1 << 40, bodies: 30 << 20, values: 40_000, want: authz.FailureOverloaded, beside: authz.FailureOverloaded},
		{memory: 1 << 40, bodies: 10 << 20, values: 40_000, want: authz.FailureRequest, beside: authz.FailureRequest},
		{memory: 1 << 40, bodies: 1 << 40, values: 60_000, want: authz.FailureRequest, beside: authz.FailureRequest}, // too many for anybody
	} {
		requests, err := newRequests(wire.Hello{Memory: tt.memory, BodyMemory: tt.bodies})
		if err != nil {
			t.Fatal(err)
		}
		read := func() (failure authz.Failure, end func()) {
			r, reading, err := requests.read(t.Context(), posting(t, tt.values))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Input(reading); err != nil {
				failure = authz.Unreadable(err).Failure
			}
			return failure, reading.End
		}
		got, end := read()
		beside, endBeside := read()
		if got != tt.want || beside != tt.beside {
			t.Errorf("%d values with %d bytes of %d: got %q and %q, want %q and %q", tt.values, tt.bodies, tt.memory, got, beside, tt.want, tt.beside)
		}
		end()
		endBeside()
		if n := requests.bodies.Taken(); n != 0 {
			t.Errorf("%d bytes are taken at the end", n)
		}
	}
}

// TestWhatIsNotReadIsNotParsedToVerify: of a body that the policy does not read, the whole input has
// what is cheap, and else nothing; of one that it reads it has that.
func TestWhatIsNotReadIsNotParsedToVerify(t *testing.T) {
	for module, reads := range map[string]bool{`input.attributes.request.http.method == "POST"`: false, "input.parsed_body": true} {
		for values, cheap := range map[int]bool{100: true, 40_000: false} {
			requests, err := newRequests(wire.Hello{})
			if err != nil {
				t.Fatal(err)
			}
			policy, err := authz.Compile(t.Context(), &adminpb.Policy{
				Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
				Modules: map[string]string{"a.rego": "package envoy.authz\nallow if " + module},
			})
			if err != nil {
				t.Fatal(err)
			}
			l := &lane{child: &child{requests: requests}, policy: cache.NewPolicy(policy)}
			q := posting(t, values)
			q.Plain = true
			r, reading, err := requests.read(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			l.wholly(t.Context(), r, reading)
			made, err := r.Input(nil)
			if err != nil {
				t.Fatal(err)
			}
			document, err := made.Document()
			if err != nil {
				t.Fatal(err)
			}
			if _, parsed := document.(map[string]any)["parsed_body"]; parsed != (cheap || reads) {
				t.Errorf("%s, %d values: it is parsed: %v", module, values, parsed)
			}
			reading.End()
			if n := requests.verifying.Taken(); n != 0 {
				t.Errorf("%d bytes are taken at the end", n)
			}
		}
	}
}

// TestABadDescriptorSetIsAnError: a process that would read bodies in another way than its
// parent does not begin.
func TestABadDescriptorSetIsAnError(t *testing.T) {
	set := checktest.HealthService()
	set.File[0].Dependency = append(set.File[0].Dependency, "missing.proto")
	without, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, descriptors := range [][]byte{[]byte("no set"), without} {
		if _, err := newRequests(wire.Hello{Descriptors: descriptors}); err == nil {
			t.Errorf("%q is taken", descriptors)
		}
	}
}
