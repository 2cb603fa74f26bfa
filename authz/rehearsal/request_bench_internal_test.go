package rehearsal

import (
	"runtime"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/wire"
)

// compared are requests, and what a policy reads of them :: what is compared → both.
func compared(b *testing.B) map[string]struct{ condition, sent string } {
	usual := func(change func(*authv3.AttributeContext_HttpRequest)) string {
		request := checktest.Istio()
		change(request.Attributes.Request.Http)
		sent, err := proto.Marshal(request)
		if err != nil {
			b.Fatal(err)
		}
		return string(sent)
	}
	withBody := func(content string) string {
		return usual(func(h *authv3.AttributeContext_HttpRequest) {
			h.Headers["content-type"], h.RawBody, h.Size = "application/json", []byte(content), int64(len(content))
		})
	}
	token := usual(func(h *authv3.AttributeContext_HttpRequest) {
		h.Headers["authorization"] = "Bearer " + strings.Repeat("abcdefgh.", 90)
	})
	const (
		path    = `startswith(input.attributes.request.http.path, "/api/")`
		headers = `{ input.parsed_path[0] == "api"; input.attributes.request.http.headers["x-user"] == input.attributes.request.http.headers.authorization }`
		content = `input.parsed_body.items[_].sku == "none"`
	)
	items := `{"items": [` + strings.Repeat(`{"sku": "a-1000", "count": 2, "note": "as usual"},`, 40) + `{}]}`
	return map[string]struct{ condition, sent string }{
		"path":                              {path, token},
		"path and headers":                  {headers, token},
		"the whole input":                   {"count(input) == 0", token},
		"a body of 2 kB":                    {content, withBody(items)},
		"a body of 256 kB that is not read": {path, withBody(`{"note": "` + strings.Repeat("x", 256<<10) + `"}`)},
	}
}

// inTwoWays measures comparisons: by the bytes of the request, and by the input document, made and
// encoded here.
func inTwoWays(b *testing.B, run func(b *testing.B, c crossing, request func() *authz.Request)) {
	for name, of := range compared(b) {
		process, _ := real(b)
		c := newCrossing(b, process, rehearsaltest.Allowing(of.condition))
		read := c.read(b, of.sent)
		asBytes := func() *authz.Request {
			return &authz.Request{
				ID: read.ID, Time: read.Time, Operation: read.Operation, Size: read.Size, Method: read.Method, Path: read.Path,
				Source: read.Source, WithoutBody: read.WithoutBody, Sent: read.Sent,
			}
		}
		asDocument := func() *authz.Request {
			r := asBytes()
			r.Sent = nil
			return r
		}
		b.Run(name+"/document", func(b *testing.B) { run(b, c, asDocument) })
		b.Run(name+"/bytes", func(b *testing.B) { run(b, c, asBytes) })
	}
}

// BenchmarkDecisionRequest is what it costs this process to make the request of one comparison.
func BenchmarkDecisionRequest(b *testing.B) {
	inTwoWays(b, func(b *testing.B, c crossing, request func() *authz.Request) {
		requests := decisionrequest.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)}
		b.ReportAllocs()
		for b.Loop() {
			q, err := requests.Of(request(), c.live.MayReadBody())
			if err != nil {
				b.Fatal(err)
			}
			payload, err := wire.AppendDecisionRequest(nil, q)
			if err != nil {
				b.Fatal(err)
			}
			runtime.KeepAlive(payload)
		}
	})
}

// BenchmarkComparison is what one comparison costs both processes that the other one decides, 32 at
// a time: live-ns is the processor time of this one, sockets and garbage included.
func BenchmarkComparison(b *testing.B) {
	inTwoWays(b, func(b *testing.B, c crossing, request func() *authz.Request) {
		requests := decisionrequest.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)}
		slots := make(chan struct{}, 32)
		b.ReportAllocs()
		begun := background.ProcessorTime()
		for b.Loop() {
			slots <- struct{}{}
			r := request()
			c.ask(b, func() (wire.DecisionRequest, bool) {
				q, err := requests.Of(r, c.live.MayReadBody())
				return q, err == nil
			}, func(authz.Decision, error) { <-slots })
		}
		for range cap(slots) {
			slots <- struct{}{}
		}
		b.ReportMetric(float64(background.ProcessorTime()-begun)/float64(b.N), "live-ns/op")
	})
}
