package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/policyfile/signature"
	"understudy/admin/rest"
)

// signChallenge is the header WWW-Authenticate of Chef's server.
const signChallenge = `X-Ops-Sign version="1.0" version="1.1" version="1.3"`

// authenticate returns the request with its sender in the context. The headers of a
// signature decide if they are there and the server has keys; the Authenticator does
// otherwise. If neither is configured, the sender is nobody in particular.
func (a *API) authenticate(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	var sender access.Principal
	var err error
	switch {
	case a.keys != nil && signature.Present(r.Header):
		r, sender, err = a.verify(w, r)
	case a.authenticator != nil:
		sender, err = a.authenticator.Authenticate(r)
	case a.keys != nil:
		err = apierror.Unauthenticated("missing required authentication header(s) X-Ops-Sign, X-Ops-UserId, X-Ops-Timestamp, X-Ops-Content-Hash, X-Ops-Authorization-1")
	}
	if err != nil {
		return nil, err
	}
	return r.WithContext(access.NewContext(r.Context(), sender)), nil
}

// verify checks a signature. The body is read only after the headers, which have its hash,
// were found to be signed; the request that is returned has it. How it ends is counted.
func (a *API) verify(w http.ResponseWriter, r *http.Request) (*http.Request, access.Principal, error) {
	nobody, outcome := access.Principal{}, "malformed"
	defer func() { a.countSignature(r.Context(), outcome) }()
	claim, err := signature.Read(r.Header, time.Now())
	if err != nil {
		if late := (*signature.ClockError)(nil); errors.As(err, &late) {
			outcome = "expired"
		}
		return nil, nobody, apierror.Unauthenticated(err.Error())
	}
	// One text for a name that is unknown and a signature that is wrong.
	refused := apierror.Unauthenticated(fmt.Sprintf("Failed to authenticate as '%s'. Ensure that your node_name and client key are correct.", claim.User))
	outcome = "signature"
	if !a.keys.Signed(claim, signature.Request{Method: r.Method, Path: r.URL.EscapedPath()}) {
		return nil, nobody, refused
	}
	access.Known(r.Context())
	body, err := rest.ReadBody(w, r, bodyLimit(r))
	if err != nil {
		outcome = "malformed"
		return nil, nobody, unreadable(err)
	}
	if !claim.Covers(body) {
		return nil, nobody, refused
	}
	sender := access.Principal{Member: "chef:" + claim.User, Method: access.MethodChef}
	if err := a.admit(r.Context(), sender); err != nil {
		outcome = "revoked"
		return nil, nobody, err
	}
	outcome = "ok"
	signed := r.Clone(r.Context())
	signed.Body = io.NopCloser(bytes.NewReader(body))
	return signed, sender, nil
}

// unreadable is the error of a body that could not be read.
func unreadable(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("JSON must be no more than %d bytes.", tooLarge.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, "the body came too slowly; nothing was changed")
	}
	return problem(http.StatusBadRequest, "the body could not be read to its end")
}

// challenge adds to a 401 how a sender can authenticate here (RFC 9110, section 11.6.1).
func (a *API) challenge(h http.Header) {
	if a.keys != nil {
		h.Add("WWW-Authenticate", signChallenge)
	}
	if a.authenticator != nil {
		h.Add("WWW-Authenticate", access.Challenge)
	}
}
