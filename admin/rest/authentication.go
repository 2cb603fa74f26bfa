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

// authenticated finds who asks, and refuses who is not known, before the path, the query or
// the body are looked at. refuse writes the error.
func (a *API) authenticated(next http.Handler, refuse func(http.ResponseWriter, error)) http.Handler {
	if a.authenticator == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := a.authenticator.Authenticate(r)
		if err != nil {
			refuse(w, withInfo(err))
			return
		}
		next.ServeHTTP(w, r.WithContext(access.NewContext(r.Context(), principal)))
	})
}

// WriteError sends an error in its envelope, for what is beside the API on the port. One that
// is UNAUTHENTICATED has the challenge that RFC 9110, section 15.5.2 asks for.
func WriteError(w http.ResponseWriter, err error) {
	err = withInfo(err)
	challenge(w, err)
	writeStatus(w, codeOf(status.Code(err)), err)
}

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
