package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/apierror"
)

// Clients that Google's generators make for REST add the system parameter `$alt` to
// each call: `$alt=json;enum-encoding=int` asks that enums of the answer are numbers, so
// that a client can read a value which is newer than itself. Each generator escapes it
// in its own way: Python and Go send %24alt=json%3Benum-encoding%3Dint, Node
// $alt=json%3Benum-encoding=int, Java $alt=json;enum-encoding%3Dint. The last does not
// parse as a query in Go, nor is it one that the API takes for any other parameter.
const (
	altJSON    = "json"
	altNumeric = "json;enum-encoding=int"
	// numericJSON selects the marshaler of altNumeric in the gateway.
	numericJSON = "application/" + altNumeric
)

// systemParameters reads `$alt` and takes it out of the query, before anything is asked
// about that. One that is not valid is refused after all that comes before validation.
func systemParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		alt, rest, err := cutAlt(r.URL.RawQuery)
		if err != nil {
			r, rest = r.WithContext(context.WithValue(r.Context(), unreadKey{}, err)), ""
		}
		r.URL.RawQuery = rest
		if alt == altNumeric {
			r.Header.Set("Accept", numericJSON)
		}
		next.ServeHTTP(w, r)
	})
}

// unreadKey is the key of the error by which a query cannot be read, in a context.
type unreadKey struct{}

// unread returns the error of systemParameters, if there is one.
func unread(ctx context.Context) error {
	err, _ := ctx.Value(unreadKey{}).(error)
	return err
}

// cutAlt returns the value of `$alt` in a raw query, which is empty if it is not there,
// and the query without it.
func cutAlt(query string) (alt, rest string, err error) {
	var others []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != "$alt" {
			others = append(others, pair)
			continue
		}
		given, err := url.QueryUnescape(value)
		if err != nil || given != altJSON && given != altNumeric {
			return "", "", apierror.Invalid(apierror.ReasonInvalidParameter, "$alt",
				fmt.Sprintf("The value is not one of %q and %q.", altJSON, altNumeric))
		}
		if alt != "" {
			return "", "", repeatedParameter("$alt")
		}
		alt = given
	}
	return alt, strings.Join(others, "&"), nil
}

// newNumericJSON is newJSON with enums as numbers.
func newNumericJSON() jsonBody {
	j := newJSON()
	j.MarshalOptions = protojson.MarshalOptions{UseEnumNumbers: true}
	return j
}

// headAsGet answers HEAD as GET (RFC 9110, section 9.3.2): net/http leaves the content
// of the answer out.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(r.Context())
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}
