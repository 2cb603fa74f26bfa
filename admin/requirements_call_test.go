package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// apiResponse is what a call of the API returned.
type apiResponse struct {
	request string
	status  int
	header  http.Header
	body    string
	decoded any
	// sent and received enclose whatever the server noted as now.
	sent, received time.Time
	// expected says that a statement has looked at the status.
	expected bool
}

// callOver runs GET, POST, PATCH, PUT and DELETE.
func (r *row) callOver(method, rest string) {
	r.expectSuccess()
	target, body := r.call(method, rest)
	r.answer = r.send(method, target, body)
	r.document = r.answer.decoded
	clear(r.header)
}

// send makes one HTTP call. It is safe for concurrent use.
func (r *row) send(method, target string, body *string) *apiResponse {
	r.Helper()
	a, err := r.exchange(method, target, body)
	if err != nil {
		r.fatalf("%s %s: %v", method, target, err)
	}
	return a
}

// exchange makes one HTTP call; the error is that of a server that went away.
func (r *row) exchange(method, target string, body *string) (*apiResponse, error) {
	r.Helper()
	var content io.Reader
	if body != nil {
		content = strings.NewReader(*body)
	}
	request, err := http.NewRequestWithContext(r.Context(), method, r.servers[r.via].URL+target, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set(memberHeader, r.member)
	for name, value := range r.header {
		request.Header.Set(name, value)
	}
	a := &apiResponse{request: method + " " + target, sent: r.clock.now()}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	a.received, a.status, a.header, a.body = r.clock.now(), response.StatusCode, response.Header, string(text)
	r.checkForm(a, text)
	return a, nil
}

// checkForm holds every answer to what is asked of all.
func (r *row) checkForm(a *apiResponse, text []byte) {
	r.Helper()
	if err := json.Unmarshal(text, &a.decoded); err != nil {
		r.errorf("%s: the answer %d is no JSON: %v\n%s", a.request, a.status, err, text)
	}
	if a.status >= 400 {
		for _, wrong := range checkErrorForm(a.status, a.decoded) {
			r.errorf("%s: %s\n%s", a.request, wrong, a.body)
		}
	}
}

// expectSuccess checks the last call, unless a statement did.
func (r *row) expectSuccess() {
	r.Helper()
	if r.answer == nil || r.answer.expected {
		return
	}
	r.answer.expected = true
	if r.answer.status != http.StatusOK {
		r.fatalf("%s: %d instead of 200\n%s", r.answer.request, r.answer.status, r.answer.body)
	}
}

// expectStatus is `status 405`.
func (r *row) expectStatus(rest string) {
	r.needAnswer()
	r.answer.expected = true
	if got := fmt.Sprint(r.answer.status); got != rest {
		r.fatalf("%s: status %s instead of %s\n%s", r.answer.request, got, rest, r.answer.body)
	}
}

func (r *row) needAnswer() {
	if r.answer == nil {
		r.fatalf("nothing was called")
	}
}

// expectError is `error 409 ABORTED ETAG_MISMATCH`.
func (r *row) expectError(rest string) {
	r.needAnswer()
	r.answer.expected = true
	want := strings.Fields(rest)
	got, reason := flatten(r.answer.decoded)
	have := []string{fmt.Sprint(r.answer.status), fmt.Sprint(got["status"]), reason}
	for i, w := range want {
		if have[i] != w {
			r.fatalf("%s: error %s instead of %s\n%s", r.answer.request, strings.Join(have, " "), rest, r.answer.body)
		}
	}
	r.document = got
}

// expectOperation is `OP Type`: it waits for the operation and makes its response
// the present document.
func (r *row) expectOperation(typeName string) {
	r.Helper()
	r.expectSuccess()
	op, _ := r.answer.decoded.(map[string]any)
	name, _ := op["name"].(string)
	if op["done"] != true {
		op = r.poll(name)
	}
	for _, wrong := range checkOperationForm(op) {
		r.errorf("%s: %s\n%s", r.answer.request, wrong, asJSON(op))
	}
	r.operation, r.document = any(op), op["response"]
	if typeName == "" {
		return
	}
	want := "type.googleapis.com/understudy.admin.v1." + typeName
	if typeName == "Empty" {
		want = "type.googleapis.com/google.protobuf.Empty"
	}
	if got, _ := dig(r.document, ".@type"); got != want {
		r.fatalf("%s: the response is a %v instead of a %s\n%s", r.answer.request, got, want, asJSON(op))
	}
}

// poll gets an operation until it is done.
func (r *row) poll(name string) map[string]any {
	var op map[string]any
	r.await("waiting for "+name, func() string {
		a := r.send("GET", "/v1/"+name, nil)
		op, _ = a.decoded.(map[string]any)
		if a.status != http.StatusOK || op["done"] != true {
			return a.body
		}
		return ""
	})
	return op
}

// checkOperationForm holds a done operation to AIP-151.
func checkOperationForm(op map[string]any) []string {
	var wrong []string
	_, failed := op["error"]
	_, answered := op["response"]
	if failed == answered {
		wrong = append(wrong, "L-3: a done operation has either a response or an error")
	}
	for field := range op {
		if !strings.Contains(" name metadata done error response ", " "+field+" ") {
			wrong = append(wrong, "L-1: an operation has no field "+field)
		}
	}
	return wrong
}

// restAndGRPC are the protocols of the one port of the API.
func restAndGRPC() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}
