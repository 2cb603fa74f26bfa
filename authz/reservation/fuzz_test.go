package reservation_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"understudy/authz/reservation"
)

// FuzzBody sends any body, path, method and headers: each is answered, by a status that
// is documented, and what is decided is JSON.
func FuzzBody(f *testing.F) {
	s, _, _ := deciding(f, live(`allow if count(input.lease) < 5`))
	h, err := reservation.New(s, reservation.Config{Policy: "leases", Tokens: []string{token}, MaxBody: 4 << 10})
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"spec-check-create", "spec-check-update", "spec-on-end", "blazar-check-create", "blazar-check-update", "blazar-on-end"} {
		_, operation, _ := strings.Cut(name, "-")
		f.Add("POST", "/v1/"+operation, token, "application/json", []byte(fixture(f, name)))
	}
	f.Add("POST", "/check-create", token, "application/json", []byte(`{"context":{},"lease":{"end_date":"2026-11-21T00:04"}}`))
	f.Add("POST", "/check-create", token, "application/json", []byte(`{"context":{},"lease":{"a":1,"a":2}}`))
	f.Add("POST", "/check-create", token, "application/json", []byte(`{"context":{},"lease":[1,],}`))
	f.Add("POST", "/v1/on-end", token, "application/json", []byte("\"\xff\""))
	f.Add("PUT", "/v1/on-end", "", "text/plain", []byte(`[[[[`))
	documented := []int{204, 400, 401, 403, 404, 405, 413, 415, 429}
	f.Fuzz(func(t *testing.T, method, path, token, mediaType string, body []byte) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(string(body)))
		r.Method, r.URL.Path = method, path
		r.Header = http.Header{"X-Auth-Token": {token}, "Content-Type": {mediaType}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		response, err := readReply(w.Result())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(documented, response.StatusCode) {
			t.Fatalf("the status is %d", response.StatusCode)
		}
		if (response.StatusCode == 204 || response.StatusCode == 403) && !json.Valid(body) {
			t.Errorf("%q is no JSON, and gets %d", body, response.StatusCode)
		}
		if response.StatusCode == 204 {
			if response.Body != "" {
				t.Errorf("204 has the body %q", response.Body)
			}
			return
		}
		messageIn(t, response)
	})
}
