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

// The API asks nobody who he is where it listens on a loopback address: whoever can
// reach that is taken for its owner. A browser can reach it too, and runs the pages of
// strangers. It lets them send requests that need no permission (a POST without a
// content type is one), and it takes a name of theirs that they let point to 127.0.0.1
// for their own site. So a change is refused if the browser says that it comes from a
// page of elsewhere, and everything is refused that is asked by a name which is not
// the server's.

// Guard is what every API on the port checks of a request before anything else.
type Guard struct {
	// Hosts are the names by which HTTP may ask, in lower case, beside localhost and
	// addresses. Nil means any name: for a server that strangers' pages cannot reach.
	Hosts []string
}

// origins finds the changes that the pages of other sites ask for.
var origins http.CrossOriginProtection

// checkCaller returns PERMISSION_DENIED for a request that a page of strangers has, or
// may have, a browser send.
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
