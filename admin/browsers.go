package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// The API asks nobody who he is where it listens on a loopback address: whoever can
// reach that is taken for its owner. A browser can reach it too, and runs the pages of
// strangers. It lets them send requests that need no permission (a POST without a
// content type is one), and it takes a name of theirs that they let point to 127.0.0.1
// for their own site. So a change is refused if the browser says that it comes from a
// page of elsewhere, and everything is refused that is asked by a name which is not
// the server's.

// checkCaller returns PERMISSION_DENIED for a request that a page of strangers has, or
// may have, a browser send.
func (s *Server) checkCaller(r *http.Request) error {
	if !s.answersTo(r.Host) {
		return fail(codes.PermissionDenied, reasonForeignHost,
			"The header Host names another server. Ask by localhost or by an address, or start the server with --admin-host.", nil)
	}
	if s.origins.Check(r) != nil {
		return fail(codes.PermissionDenied, reasonForeignOrigin,
			"A browser sent this for a page that is not of this server. Ask by a program, or from the same origin.", nil)
	}
	return nil
}

// answersTo reports whether the server may be asked by a Host. An address cannot be
// made to point elsewhere.
func (s *Server) answersTo(host string) bool {
	if s.hosts == nil {
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
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(s.hosts, name)
}
