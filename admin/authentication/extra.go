package authentication

import (
	"encoding/json"
	"net/http"

	"understudy/admin/rest"
)

// serveExtra answers GET and HEAD at a path next to the API, with JSON or an error of the API.
func serveExtra(guard rest.Guard, answer func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := guard.Check(r); err != nil {
			rest.WriteError(w, err)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		value, err := answer(r)
		if err != nil {
			rest.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	})
}
