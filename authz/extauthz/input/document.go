package input

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/rego"
)

// usualHeaders is how many headers a request has room for at once: browsers and meshes
// send fewer, and each time the list grows it is copied.
const usualHeaders = 32

// document is the input document: the fields of a CheckRequest, by Envoy's descriptor, and
// what is derived from them.
//
//	attributes: {source, destination, request: {time, http: {method, path, headers, …}}, contextExtensions, metadataContext, …}
//	version, parsed_path, parsed_query, parsed_body, truncated_body, source_principal
var document = newDocument()

func newDocument() *objectPart {
	o := newObject((&authv3.CheckRequest{}).ProtoReflect().Descriptor())
	o.set("version", constantPart{versionValue()})
	o.set("parsed_path", pathPart{})
	o.set("parsed_query", queryPart{})
	o.set("parsed_body", bodyPart{})
	o.set("truncated_body", truncatedPart{})
	o.set("source_principal", find[*textPart](o, "attributes", "source", "principal"))
	find[*mapPart](o, "attributes", "request", "http", "headers").room = usualHeaders
	find[*leafPart](o, "attributes", "request", "http", "headerMap").unusual = FallbackRawHeaders
	return o
}

// unparsed is the document without the body as it was read, and withoutBody without all that is read of it.
var (
	unparsed    = document.without("parsed_body")
	withoutBody = unparsed.without("truncated_body")
)

// at are the parts of the document that are read for more than the document.
var at = struct {
	attributes                          *objectPart
	method, path, host, principal, body *textPart
	headers, extensions                 *mapPart
	rawBody, headerMap, metadata        *leafPart
}{
	attributes: find[*objectPart](document, "attributes"),
	method:     find[*textPart](document, "attributes", "request", "http", "method"),
	path:       find[*textPart](document, "attributes", "request", "http", "path"),
	host:       find[*textPart](document, "attributes", "request", "http", "host"),
	principal:  find[*textPart](document, "source_principal"),
	body:       find[*textPart](document, "attributes", "request", "http", "body"),
	rawBody:    find[*leafPart](document, "attributes", "request", "http", "rawBody"),
	headers:    find[*mapPart](document, "attributes", "request", "http", "headers"),
	extensions: find[*mapPart](document, "attributes", "contextExtensions"),
	headerMap:  find[*leafPart](document, "attributes", "request", "http", "headerMap"),
	metadata:   find[*leafPart](document, "attributes", "metadataContext"),
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
