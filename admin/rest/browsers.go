package rest

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"understudy/admin/apierror"
)

// By default the API has no authentication and listens on a loopback address: anyone who can
// reach that is taken for its owner. But a browser on the machine can reach it too, and
// runs pages of other sites. Two attacks follow. A page may send requests that need no
// permission of the server, such as a POST without a content type (cross-site request
// forgery). And a site may let a name of its own point to 127.0.0.1, so that the browser
// takes this server for that site (DNS rebinding). So a change is refused if the browser
// says that it comes from a page of another origin, and everything is refused whose header
// Host is not a name of this server.

// Guard is what every API on the port checks of a request before anything else.
type Guard struct {
	// Hosts are the names by which HTTP may ask, in lower case, next to localhost and
	// addresses. Nil means any name: for a server that pages of other sites cannot reach.
	Hosts []string
}

// origins finds the changes that the pages of other sites ask for.
var origins http.CrossOriginProtection

// checkCaller returns PERMISSION_DENIED for a request that a browser sends, or may send,
// for a page of another site.
func (g Guard) checkCaller(r *http.Request) error {
	if !g.admits(r.Host) {
		return apierror.New(codes.PermissionDenied, apierror.ReasonForeignHost,
			"The header Host names another server. Ask by localhost or by an address, or start the server with --admin-host.", nil)
	}
	if origins.Check(r) != nil {
		return apierror.New(codes.PermissionDenied, apierror.ReasonForeignOrigin,
			"A browser sent this for a page that is not of this server. Ask by a program, or from the same origin.", nil)
	}
	return nil
}

// admits reports whether the server may be asked by a Host. An address cannot be
// made to point elsewhere.
func (g Guard) admits(host string) bool {
	if g.Hosts == nil {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(g.Hosts, name)
}
