package sidecar_test

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func object(t testing.TB, text string) *structpb.Struct {
	t.Helper()
	out := &structpb.Struct{}
	if err := out.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return out
}

// echo is a policy that repeats every credential in its answer, in several ways, and
// whose masks carry them to other places.
const echo = `package envoy.authz
http := input.attributes.request.http
found contains value if some value in object.get(http, "headers", {})
found contains h.value if some h in object.get(http, "headerMap", {}).headers
allow := {
	"allowed": true,
	"headers": {"authorization": "x", "x-copy": [v | some v in found]},
	"dynamic_metadata": {"all": [v | some v in found], "parts": [p | some v in found; some p in split(v, " ")], "http": http},
	"reason": concat(", ", [sprintf("%v", [v]) | some v in found]),
	"labels": {sprintf("copy-%d", [i]): v | some i, v in [v | some v in found]},
}`

const carry = `package system.log
mask contains {"op": "upsert", "path": "/input/copy", "value": input.input.attributes.request.http}
mask contains {"op": "upsert", "path": "/result/copy/deep", "value": [v | some v in input.result.dynamic_metadata.all]}`

// forms are the ways in which a header can arrive.
var forms = []func(name, value string) map[string]any{
	func(name, value string) map[string]any { return map[string]any{"headers": map[string]any{name: value}} },
	func(name, value string) map[string]any {
		return map[string]any{"headers": map[string]any{name: []any{value}}}
	},
	func(name, value string) map[string]any {
		return map[string]any{"headerMap": map[string]any{"headers": []any{map[string]any{"key": name, "value": value}}}}
	},
	func(name, value string) map[string]any {
		raw := base64.StdEncoding.EncodeToString([]byte(value))
		return map[string]any{
			"headers":   map[string]any{},
			"headerMap": map[string]any{"headers": []any{map[string]any{"key": name, "rawValue": raw}, map[string]any{"key": "accept", "value": "*/*"}}},
		}
	},
}

// spelled writes a name with the upper case letters that the bits say.
func spelled(name string, bits uint64) string {
	out := []byte(name)
	for i, c := range out {
		if bits>>(i%64)&1 == 1 && 'a' <= c && c <= 'z' {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

// FuzzCredentialsAreHidden sends a secret in a header that carries credentials, in any
// case and form, to a policy that spreads it. No record has it, nor its base64.
func FuzzCredentialsAreHidden(f *testing.F) {
	for i := range forms {
		f.Add(uint8(i), uint8(i), uint64(0), "Bearer ", "")
		f.Add(uint8(i), uint8(i+4), uint64(0xAAAA), "session=", "; theme=dark")
		f.Add(uint8(i), uint8(13), uint64(11), "", "0\t") // a control character, which labels have not
	}
	const secret = "s3cr3t-T0ken/0123456789+="
	names := []string{
		"authorization", "proxy-authorization", "cookie", "cookie2", "set-cookie", "set-cookie2", "x-api-key", "x-auth-token",
		"x-goog-iap-jwt-assertion", "x-amzn-oidc-data", "private-token", "x-csrf-token",
		"x-amz-security-token", "x-forwarded-access-token",
	}
	for i := range names {
		f.Add(uint8(0), uint8(i), uint64(0), "", "")
	}
	p := policy("live", echo)
	p.Modules["log.rego"] = carry
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: p})
	rec := newRecording()
	s, _ := start(f, feed, logTo(rec))
	testkit.Closed(f, "s is ready", s.Ready())
	f.Fuzz(func(t *testing.T, form, name uint8, bits uint64, before, after string) {
		http := forms[int(form)%len(forms)](spelled(names[int(name)%len(names)], bits), before+secret+after)
		r := request("GET", map[string]any{"attributes": map[string]any{"request": map[string]any{"http": http}}})
		s.Check(t.Context(), r)
		records := rec.await(t, 1)
		got := records[len(records)-1]
		for _, text := range append(slices.Collect(maps.Values(got.attributes)), got.body) {
			if contains(text, before+secret+after) || before == "" && contains(text, secret) {
				t.Fatalf("the record has the secret: %s", text)
			}
			known := before == "Bearer " || before == "session="
			if known && (after == "" || after[0] == ';') && contains(text, secret) {
				t.Fatalf("the record has the credential alone: %s", text)
			}
			if raw := base64.StdEncoding.EncodeToString([]byte(before + secret + after)); contains(text, raw) {
				t.Fatalf("the record has the secret in base64: %s", text)
			}
		}
		if !contains(got.body, `"masked":[`) {
			t.Fatalf("the event does not say what is masked: %s", got.body)
		}
	})
}

// TestTheInputIsNotHiddenByItsSender repeats other parts of the request in a cookie:
// a client must not choose what the log says of his request.
func TestTheInputIsNotHiddenByItsSender(t *testing.T) {
	feed, rec := live(allowIf(onlyGET)), newRecording()
	s, _ := start(t, feed, logTo(rec))
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(t.Context(), request("GET", map[string]any{
		"headers": map[string]any{"cookie": "a=/admin/delete/everything; b=mallory@example.com"},
		"path":    "/admin/delete/everything", "source_principal": "mallory@example.com",
	}))
	got := rec.await(t, 1)[0].body
	if !contains(got, `"path":"/admin/delete/everything"`) || !contains(got, `"source_principal":"mallory@example.com"`) {
		t.Errorf("the event hides the request: %s", got)
	}
	if !contains(got, `"headers":{"cookie":"***"}`) {
		t.Errorf("the event shows the cookie: %s", got)
	}
}

// FuzzMasks applies masks of any form to an event: none breaks the log, and one that
// is not understood leaves nothing of the input.
func FuzzMasks(f *testing.F) {
	for _, m := range []string{
		`["/input/a"]`, `["/input/list/0"]`, `["/result"]`, `[{"op":"upsert","path":"/input/x/y/z","value":{"a":1}}]`,
		`[{"op":"remove","path":"/input/a~1b"}]`, `{"a":1}`, `["input"]`, `["/labels/id"]`, `[{"path":"/input"}]`, `[{"op":"upsert","path":"/input"}]`,
		`["/"]`, `["/input/list/-1", "/input/list/9", "/input//"]`, `[1]`, `[{"op":"upsert","path":"/input/list/0","value":null}]`, `["/input/%zz"]`,
	} {
		f.Add(m)
	}
	p := policy("live", "package envoy.authz\nallow := true")
	p.Modules["log.rego"] = "package system.log\nmask := json.unmarshal(input.input.mask)"
	feed, rec := newFeed(), newRecording()
	feed.put(webName, authz.PolicyState{Policy: p})
	m := newMeter()
	s, _ := start(f, feed, func(c *sidecar.Config) { logTo(rec)(c); c.Meters = m })
	testkit.Closed(f, "s is ready", s.Ready())
	f.Fuzz(func(t *testing.T, mask string) {
		r := request("GET", nil)
		r.Source = func(*authz.ReadBudget) (rego.Input, error) {
			return rego.NewInput(map[string]any{"mask": mask, "a": "x", "a/b": "y", "list": []any{"z", []any{"w"}}})
		}
		s.Check(t.Context(), r)
		records := rec.await(t, 1)
		body := records[len(records)-1].body
		if contains(body, "MASK_FAILED") && (contains(body, `"input":`) || contains(body, `"result":`)) {
			t.Fatalf("an event whose masks failed has input or result: %s", body)
		}
	})
	if n := m.count(f, "understudy.decision_log.dropped"); n != 0 {
		f.Errorf("%d events are lost", n)
	}
}
