package input

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/rego"
)

// The messages of attribute_context.proto.
type (
	attributeContext = authv3.AttributeContext
	peer             = authv3.AttributeContext_Peer
	request          = authv3.AttributeContext_Request
	httpRequest      = authv3.AttributeContext_HttpRequest
	tlsSession       = authv3.AttributeContext_TLSSession
)

// attributes is input.attributes: a line for each field of Envoy's message, with its
// number, its name in the document, and the getter of the decoded message. Numbers and
// names are those of attribute_context.proto; a test holds every line against Envoy's
// descriptor. A field that Envoy adds is unknown here until it has a line: the lazy
// decoder then leaves the request to the full decode.
var attributes = message(1, "attributes", (*authv3.CheckRequest).GetAttributes,
	message(1, "source", (*attributeContext).GetSource, peerLines()...),
	message(2, "destination", (*attributeContext).GetDestination, peerLines()...),
	message(4, "request", (*attributeContext).GetRequest,
		opaque(1, "time", (*request).GetTime),
		message(2, "http", (*request).GetHttp,
			text(1, "id", (*httpRequest).GetId),
			text(2, "method", (*httpRequest).GetMethod),
			pairs(3, "headers", (*httpRequest).GetHeaders),
			text(4, "path", (*httpRequest).GetPath),
			text(5, "host", (*httpRequest).GetHost),
			text(6, "scheme", (*httpRequest).GetScheme),
			text(7, "query", (*httpRequest).GetQuery),
			text(8, "fragment", (*httpRequest).GetFragment),
			integer(9, "size", (*httpRequest).GetSize),
			text(10, "protocol", (*httpRequest).GetProtocol),
			text(11, "body", (*httpRequest).GetBody),
			bytes(12, "rawBody", (*httpRequest).GetRawBody),
			decodedOnly(FallbackRawHeaders, opaque(13, "headerMap", (*httpRequest).GetHeaderMap)),
		),
	),
	pairs(10, "contextExtensions", (*attributeContext).GetContextExtensions),
	metadata(11, "metadataContext", (*attributeContext).GetMetadataContext),
	message(12, "tlsSession", (*attributeContext).GetTlsSession,
		text(1, "sni", (*tlsSession).GetSni),
	),
	metadata(13, "routeMetadataContext", (*attributeContext).GetRouteMetadataContext),
)

// peerLines are the lines of one end of the connection.
func peerLines() []line[peer] {
	return []line[peer]{
		opaque(1, "address", (*peer).GetAddress),
		text(2, "service", (*peer).GetService),
		pairs(3, "labels", (*peer).GetLabels),
		text(4, "principal", (*peer).GetPrincipal),
		text(5, "certificate", (*peer).GetCertificate),
	}
}

// document is the input document: the attributes, and what is derived from them.
var document = root(attributes, map[string]part{
	"version":          constantPart{versionValue()},
	"parsed_path":      pathPart{},
	"parsed_query":     queryPart{},
	"parsed_body":      bodyPart{},
	"truncated_body":   truncatedPart{},
	"source_principal": at.principal,
})

// at are the parts of the table that more than the input document is made of.
var at = struct {
	method, path, host, principal, body, rawBody *textPart
	headers, extensions                          *pairsPart
	headerMap                                    *opaquePart
}{
	method:     find[*textPart](attributes, "request", "http", "method"),
	path:       find[*textPart](attributes, "request", "http", "path"),
	host:       find[*textPart](attributes, "request", "http", "host"),
	principal:  find[*textPart](attributes, "source", "principal"),
	body:       find[*textPart](attributes, "request", "http", "body"),
	rawBody:    &find[*bytesPart](attributes, "request", "http", "rawBody").textPart,
	headers:    find[*pairsPart](attributes, "request", "http", "headers"),
	extensions: find[*pairsPart](attributes, "contextExtensions"),
	headerMap:  find[decodedOnlyPart](attributes, "request", "http", "headerMap").opaquePart,
}

// versionValue is input.version, by which a policy can recognize the form of the
// document. It is that of opa-envoy-plugin, so that libraries of policies which look at
// it work.
func versionValue() rego.Value {
	o := rego.NewObject(2)
	o.Set(rego.NewName("ext_authz"), rego.String("v3"))
	o.Set(rego.NewName("encoding"), rego.String("protojson"))
	return o.Value()
}
