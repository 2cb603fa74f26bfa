package rehearsal

import (
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
)

// method allows a method, and pathOf a path. Neither is ever all seen: no request here has another host.
func method(is string) *adminpb.Policy { return field("method", is) }

func pathOf(is string) *adminpb.Policy { return field("path", is) }

func field(name, is string) *adminpb.Policy {
	p := rehearsaltest.Allowing(`input.attributes.request.http.` + name + ` == "` + is + `"`)
	p.Modules["b.rego"] = "package envoy.authz\nallow if input.attributes.request.http.host == \"of " + name + "\""
	return p
}

// TestARepeatedRequestHasOneLeaf by the tree of the process, whatever of it the policy does not ask, and shares
// its comparison.
func TestARepeatedRequestHasOneLeaf(t *testing.T) {
	c := newCrossing(t, supervisortest.New(t), method("GET"))
	get, _ := c.there(t, c.read(t, asking(t, "GET", "/a", "")))
	again, _ := c.there(t, c.read(t, asking(t, "GET", "/b", "x")))
	put, _ := c.there(t, c.read(t, asking(t, "PUT", "/a", "")))
	if none := (authz.Leaf{}); get.Leaf() == none || again.Leaf() != get.Leaf() || put.Leaf() == none || put.Leaf() == get.Leaf() {
		t.Errorf("the leaves of GET, GET and PUT are %v, %v and %v", get.Leaf(), again.Leaf(), put.Leaf())
	}
	if get.Rendering() == nil || get.Rendering() != again.Rendering() || put.Rendering() == get.Rendering() {
		t.Error("equal decisions have no rendering in common, or different ones have")
	}
}

// TestWhetherAnExperimentReadsTheBody: until it is known it may, and so may one that is never known.
func TestWhetherAnExperimentReadsTheBody(t *testing.T) {
	s, err := New(Config{Output: diagnostics.Output{Meters: sdkmetric.NewMeterProvider()}})
	if err != nil {
		t.Fatal(err)
	}
	alone := s.NewCandidate("a", method("GET"))
	defer alone.Close()
	if !alone.side.Remote.ReadsBody() {
		t.Error("without a process it is known not to read the body")
	}
	for want, policies := range map[bool][]*adminpb.Policy{
		false: {method("GET"), {}},
		true:  {rehearsaltest.Allowing("input.parsed_body.a"), rehearsaltest.Allowing("not input.truncated_body"), rehearsaltest.Allowing("count(input) == 1"), rehearsaltest.Allowing("syntax error")},
	} {
		for _, p := range policies {
			s.config.Process = supervisortest.New(t)
			c := s.NewCandidate("b", p)
			defer c.Close()
			testkit.Closed(t, "c is ready", c.Ready())
			if got := c.side.Remote.ReadsBody(); got != want {
				t.Errorf("%v: it may read the body: %v, want %v", p.GetModules(), got, want)
			}
		}
	}
}

// TestACandidateThatIsClosedComparesNothing: neither what is offered nor what was asked before is counted as a
// comparison.
func TestACandidateThatIsClosedComparesNothing(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), pathOf("/a"), method("GET"))
	c := r.comparing(t, newCrossing(t, r.shadow.config.Process, method("GET")).read(t, asking(t, "GET", "/a", "")))
	tally := r.experiment.Candidate.metrics
	r.experiment.Candidate.Close()
	r.shadow.one(&c.job, r.experiment)
	r.shadow.underWay.Wait()
	if n := tally.dropped[DropChanged]; n != 1 {
		t.Errorf("%d comparisons are dropped, want 1", n)
	}
	r.shadow.underWay.Add(1)
	c.job.held = &held{shadow: r.shadow}
	c.job.held.waiting.Add(1)
	c.answered(authz.Decision{Effect: authz.Allow}, nil) // as it was on its way
	if n := tally.dropped[DropChanged]; n != 2 {
		t.Errorf("%d comparisons are dropped, want 2", n)
	}
}
