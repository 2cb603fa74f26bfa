package input_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz/extauthz/input"
)

// TestSubject reads iss and sub where the filter for tokens has put them, and nowhere else.
func TestSubject(t *testing.T) {
	object := func(fields map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const jwtAuthn = "envoy.filters.http.jwt_authn"
	claims := map[string]any{"iss": "https://issuer", "sub": "ann"}
	for name, c := range map[string]struct {
		metadata        map[string]*structpb.Struct
		issuer, subject string
	}{
		"the payload":      {map[string]*structpb.Struct{jwtAuthn: object(map[string]any{"payload": claims})}, "https://issuer", "ann"},
		"no issuer":        {map[string]*structpb.Struct{jwtAuthn: object(map[string]any{"payload": map[string]any{"sub": "ann"}})}, "", "ann"},
		"no subject":       {map[string]*structpb.Struct{jwtAuthn: object(map[string]any{"payload": map[string]any{"iss": "i"}})}, "", ""},
		"a number":         {map[string]*structpb.Struct{jwtAuthn: object(map[string]any{"payload": map[string]any{"iss": "i", "sub": 7}})}, "", ""},
		"another key":      {map[string]*structpb.Struct{jwtAuthn: object(map[string]any{"other": claims})}, "", ""},
		"another filter":   {map[string]*structpb.Struct{"envoy.filters.http.lua": object(map[string]any{"payload": claims})}, "", ""},
		"a text":           {map[string]*structpb.Struct{jwtAuthn: object(map[string]any{"payload": "ann"})}, "", ""},
		"no such metadata": {nil, "", ""},
	} {
		message := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"}},
		}}
		if c.metadata != nil {
			message.Attributes.MetadataContext = &corev3.Metadata{FilterMetadata: c.metadata}
		}
		wire, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		q, _, err := (&input.Reader{TokenPayload: "payload"}).Read(wire)
		if err != nil {
			t.Fatal(err)
		}
		if issuer, subject := q.Subject(); issuer != c.issuer || subject != c.subject {
			t.Errorf("%s: the subject is %q of %q, want %q of %q", name, subject, issuer, c.subject, c.issuer)
		}
	}
	if q, _, err := new(input.Reader).Read([]byte("\x0a\x00")); err != nil || q.Subject != nil {
		t.Errorf("without a key nobody asks for a subject; got an error: %v", err)
	}
}
