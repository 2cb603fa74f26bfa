package rest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/admin/access"
)

// Who calls is found once, here, for REST and gRPC, before anything but the head of a
// request is looked at. Two things need no credentials: health, which probes ask that can
// send none, and the OpenAPI document, which tools load before they know how to
// authenticate; both say nothing that is not in the repository. Reflection and the Watch of
// health say no more, but are streams that their callers hold open: they need credentials,
// and no permission.

// writer sends an error in the form of a protocol.
type writer func(http.ResponseWriter, error)

// admitted lets requests pass that no page of another site sends, whose target can be read
// in one way, and whose caller is known, and puts the principal into their context.
func (a *API) admitted(write writer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check := a.guard.Check
		if isGRPC(r) {
			check = a.guard.checkCaller // a method of gRPC is its path as it stands there
		}
		if err := check(r); err != nil {
			write(w, err)
			return
		}
		if a.authenticator != nil && !open(r) {
			who, err := a.authenticator.Authenticate(r)
			if err != nil {
				if status.Code(err) == codes.Unauthenticated {
					a.audit.Unauthenticated(r)
				}
				write(w, withInfo(err))
				return
			}
			r = r.WithContext(access.NewContext(r.Context(), who))
		}
		next.ServeHTTP(w, r)
	})
}

// open reports whether a request needs no credentials.
func open(r *http.Request) bool {
	return isProbe(r) || !isGRPC(r) && r.URL.Path == "/openapi.json"
}

// WriteError sends an error in its envelope, for what is next to the API on the port. One that
// is UNAUTHENTICATED has the challenge that RFC 9110, section 15.5.2 asks for.
func WriteError(w http.ResponseWriter, err error) {
	err = withInfo(err)
	challenge(w, err)
	writeStatus(w, codeOf(status.Code(err)), err)
}

// StatusOf is the status of HTTP that an error of the API has.
func StatusOf(err error) int { return codeOf(status.Code(withInfo(err))) }

// challenge sets WWW-Authenticate if an error is UNAUTHENTICATED.
func challenge(w http.ResponseWriter, err error) {
	if status.Code(err) == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", access.Challenge)
	}
}

// writeGRPCError sends an error as gRPC does that has no message (Trailers-Only). The server
// of gRPC could send it only after it has read the message of the call.
func writeGRPCError(w http.ResponseWriter, err error) {
	st := status.Convert(err)
	challenge(w, err)
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(st.Code())))
	h.Set("Grpc-Message", percentEncoded(st.Message()))
	if details, err := proto.Marshal(st.Proto()); err == nil {
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	w.WriteHeader(http.StatusOK)
}

// percentEncoded is the Percent-Encoded of gRPC over HTTP/2: printable ASCII but for %.
func percentEncoded(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
