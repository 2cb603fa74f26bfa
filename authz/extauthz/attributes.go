package extauthz

import (
	"encoding/base64"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/rego"
)

// The functions of this file each turn one message into its object. They name
// every field, so that a check costs no reflection; a test holds them against the
// descriptors, which also tells when Envoy adds a field.

// object is a JSON object under construction. Its methods set a field if it is
// populated: a field that is not set is absent from the document, not null.
type object map[string]any

func (o object) text(name, value string) {
	if value != "" {
		o[name] = value
	}
}

func (o object) integer(name string, value int64) {
	if value != 0 {
		o[name] = value
	}
}

func (o object) truth(name string, value bool) {
	if value {
		o[name] = true
	}
}

func (o object) bytes(name string, value []byte) {
	if len(value) > 0 {
		o[name] = base64.StdEncoding.EncodeToString(value)
	}
}

func (o object) texts(name string, values map[string]string) {
	if len(values) > 0 {
		o[name] = values
	}
}

func attributesOf(a *authv3.AttributeContext, want wanted) map[string]any {
	o := object{}
	if a.Source != nil {
		o["source"] = peerOf(a.Source)
	}
	if a.Destination != nil {
		o["destination"] = peerOf(a.Destination)
	}
	if a.Request != nil {
		o["request"] = requestOf(a.Request, want)
	}
	o.texts("contextExtensions", a.ContextExtensions)
	if a.MetadataContext != nil {
		o["metadataContext"] = metadataOf(a.MetadataContext)
	}
	if a.RouteMetadataContext != nil {
		o["routeMetadataContext"] = metadataOf(a.RouteMetadataContext)
	}
	if a.TlsSession != nil {
		session := object{}
		session.text("sni", a.TlsSession.Sni)
		o["tlsSession"] = map[string]any(session)
	}
	return o
}

func peerOf(p *authv3.AttributeContext_Peer) map[string]any {
	o := object{}
	if p.Address != nil {
		o["address"] = addressOf(p.Address)
	}
	o.text("service", p.Service)
	o.texts("labels", p.Labels)
	o.text("principal", p.Principal)
	o.text("certificate", p.Certificate)
	return o
}

func addressOf(a *corev3.Address) map[string]any {
	o := object{}
	switch a := a.Address.(type) {
	case *corev3.Address_SocketAddress:
		o["socketAddress"] = socketAddressOf(a.SocketAddress)
	case *corev3.Address_Pipe:
		pipe := object{}
		pipe.text("path", a.Pipe.GetPath())
		pipe.integer("mode", int64(a.Pipe.GetMode()))
		o["pipe"] = map[string]any(pipe)
	case *corev3.Address_EnvoyInternalAddress:
		o["envoyInternalAddress"] = internalAddressOf(a.EnvoyInternalAddress)
	}
	return o
}

func socketAddressOf(a *corev3.SocketAddress) map[string]any {
	o := object{}
	o.integer("protocol", int64(a.GetProtocol()))
	o.text("address", a.GetAddress())
	// A member of a oneof is populated even if it is zero.
	switch port := a.GetPortSpecifier().(type) {
	case *corev3.SocketAddress_PortValue:
		o["portValue"] = int64(port.PortValue)
	case *corev3.SocketAddress_NamedPort:
		o["namedPort"] = port.NamedPort
	}
	o.text("resolverName", a.GetResolverName())
	o.truth("ipv4Compat", a.GetIpv4Compat())
	o.text("networkNamespaceFilepath", a.GetNetworkNamespaceFilepath())
	return o
}

func internalAddressOf(a *corev3.EnvoyInternalAddress) map[string]any {
	o := object{}
	if name, ok := a.GetAddressNameSpecifier().(*corev3.EnvoyInternalAddress_ServerListenerName); ok {
		o["serverListenerName"] = name.ServerListenerName
	}
	o.text("endpointId", a.GetEndpointId())
	return o
}

func requestOf(r *authv3.AttributeContext_Request, want wanted) map[string]any {
	o := object{}
	if r.Time != nil {
		o["time"] = timeOf(r.Time)
	}
	if r.Http != nil {
		o["http"] = httpOf(r.Http, want)
	}
	return o
}

func timeOf(t *timestamppb.Timestamp) map[string]any {
	o := object{}
	o.integer("seconds", t.Seconds)
	o.integer("nanos", int64(t.Nanos))
	return o
}

func httpOf(h *authv3.AttributeContext_HttpRequest, want wanted) map[string]any {
	o := object{}
	o.text("id", h.Id)
	o.text("method", h.Method)
	o.texts("headers", h.Headers)
	if h.HeaderMap != nil {
		o["headerMap"] = headerMapOf(h.HeaderMap)
	}
	o.text("path", h.Path)
	o.text("host", h.Host)
	o.text("scheme", h.Scheme)
	o.text("query", h.Query)
	o.text("fragment", h.Fragment)
	o.integer("size", h.Size)
	o.text("protocol", h.Protocol)
	if want.body {
		o.text("body", h.Body)
	}
	if want.rawBody {
		o.bytes("rawBody", h.RawBody)
	}
	return o
}

func headerMapOf(m *corev3.HeaderMap) map[string]any {
	o := object{}
	if len(m.Headers) == 0 {
		return o
	}
	list := make([]any, len(m.Headers))
	for i, h := range m.Headers {
		header := object{}
		header.text("key", h.GetKey())
		header.text("value", h.GetValue())
		header.bytes("rawValue", h.GetRawValue())
		list[i] = map[string]any(header)
	}
	o["headers"] = list
	return o
}

func metadataOf(m *corev3.Metadata) map[string]any {
	o := object{}
	if len(m.FilterMetadata) > 0 {
		filters := make(map[string]any, len(m.FilterMetadata))
		for name, s := range m.FilterMetadata {
			filters[name] = rego.FromStruct(s)
		}
		o["filterMetadata"] = filters
	}
	if len(m.TypedFilterMetadata) > 0 {
		filters := make(map[string]any, len(m.TypedFilterMetadata))
		for name, a := range m.TypedFilterMetadata {
			filters[name] = anyOf(a)
		}
		o["typedFilterMetadata"] = filters
	}
	return o
}

// anyOf does not unpack: what a policy sees must not depend on which types happen
// to be linked into this binary.
func anyOf(a *anypb.Any) map[string]any {
	o := object{}
	o.text("typeUrl", a.GetTypeUrl())
	o.bytes("value", a.GetValue())
	return o
}
