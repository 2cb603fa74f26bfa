package authz

import (
	"fmt"
	"strings"
)

// framingHeaders say where a message ends or belong to one connection (RFC 9110, 7.6.1;
// RFC 9112, 6), by their names in lower case. Proxies add and remove them; Envoy hands on
// what an OK sets. An upstream that gets a content-length waits for that body, and takes
// the next request on the connection for it.
var framingHeaders = map[string]bool{
	"content-length": true, "transfer-encoding": true, "connection": true, "keep-alive": true, "proxy-connection": true,
	"te": true, "trailer": true, "upgrade": true, "http2-settings": true,
}

// FramingHeader reports whether a header is not a policy's to set on a message that
// others send: it frames the message or belongs to a connection.
func FramingHeader(name string) bool { return framingHeaders[strings.ToLower(name)] }

// refuseFraming is the error of fields of which one is a FramingHeader.
func refuseFraming(fields []Field) error {
	for _, f := range fields {
		if FramingHeader(f.Name) {
			return fmt.Errorf("sets %s, which frames the message or belongs to its connection; leave it to the proxy", strings.ToLower(f.Name))
		}
	}
	return nil
}
