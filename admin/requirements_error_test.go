package admin_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// flatten makes the details of an error's envelope fields by their type, and
// returns the reason of its ErrorInfo.
func flatten(envelope any) (map[string]any, string) {
	flat := map[string]any{}
	object, _ := dig(envelope, ".error")
	fields, _ := object.(map[string]any)
	for name, value := range fields {
		if name != "details" {
			flat[name] = value
		}
	}
	details, _ := fields["details"].([]any)
	for _, d := range details {
		detail, _ := d.(map[string]any)
		name := fmt.Sprint(detail["@type"])
		flat[name[strings.LastIndexByte(name, '.')+1:]] = d
	}
	reason, _ := dig(flat, ".ErrorInfo.reason")
	text, _ := reason.(string)
	return flat, text
}

// httpStatus is the mapping of google.rpc.Code to HTTP (AIP-193).
var httpStatus = map[string]int{
	"CANCELLED": 499, "UNKNOWN": 500, "INVALID_ARGUMENT": 400, "DEADLINE_EXCEEDED": 504, "NOT_FOUND": 404,
	"ALREADY_EXISTS": 409, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429, "FAILED_PRECONDITION": 400,
	"ABORTED": 409, "OUT_OF_RANGE": 400, "UNIMPLEMENTED": 501, "INTERNAL": 500, "UNAVAILABLE": 503,
	"DATA_LOSS": 500, "UNAUTHENTICATED": 401,
}

// ownStatus are the HTTP errors that no google.rpc.Code maps to: they are the REST
// edge's own, together with the code that says the same to a client of the envelope.
var ownStatus = map[int]string{
	405: "UNIMPLEMENTED", 413: "INVALID_ARGUMENT", 415: "INVALID_ARGUMENT", 406: "INVALID_ARGUMENT",
	408: "DEADLINE_EXCEEDED",
}

var (
	reasonForm    = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,61}[A-Z0-9]$`)
	metadataKey   = regexp.MustCompile(`^[a-z][a-zA-Z0-9\-_]{1,63}$`)
	quotedPart    = regexp.MustCompile(`'([^']+)'`)
	dynamicPart   = regexp.MustCompile(`projects/[^\s'",;]*[^\s'",;.:]|W/"[^"]*"|\b\d{3,}\b`)
	technology    = regexp.MustCompile(`(?i)redis|\blua\b|fcall|bbolt|bolt:|protojson|panic|goroutine|\.go:\d|grpc-gateway`)
	detailsOfType = map[string]string{
		"INVALID_ARGUMENT": "BadRequest", "FAILED_PRECONDITION": "PreconditionFailure",
		"RESOURCE_EXHAUSTED": "QuotaFailure", "NOT_FOUND": "ResourceInfo",
	}
)

// checkErrorForm holds the envelope of an error to AIP-193 and returns what is
// wrong with it.
func checkErrorForm(status int, envelope any) []string {
	top, _ := envelope.(map[string]any)
	object, ok := top["error"].(map[string]any)
	if !ok || len(top) != 1 {
		return []string{"E-1: an error is {\"error\":{…}} and nothing else"}
	}
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for name := range object {
		if !strings.Contains(" code message status details ", " "+name+" ") {
			complain("E-1: the error has a field %s", name)
		}
	}
	if fmt.Sprint(object["code"]) != fmt.Sprint(status) {
		complain("E-1: code %v in an answer with status %d", object["code"], status)
	}
	name := fmt.Sprint(object["status"])
	if mapped := httpStatus[name]; mapped != status && ownStatus[status] != name {
		complain("E-2: %s with HTTP status %d", name, status)
	}
	message, _ := object["message"].(string)
	details, _ := object["details"].([]any)
	return append(wrong, checkDetails(name, message, details)...)
}

// checkDetails holds the details of an error to AIP-193.
func checkDetails(code, message string, details []any) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	types := map[string]map[string]any{}
	for _, d := range details {
		detail, _ := d.(map[string]any)
		name := fmt.Sprint(detail["@type"])
		name = name[strings.LastIndexByte(name, '.')+1:]
		if types[name] != nil {
			complain("E-5: %s occurs twice", name)
		}
		types[name] = detail
	}
	info := types["ErrorInfo"]
	reason, _ := info["reason"].(string)
	switch {
	case info == nil:
		complain("E-3: there is no ErrorInfo")
	case !reasonForm.MatchString(reason):
		complain("E-3: the reason %q has the wrong form", reason)
	case info["domain"] != "understudy.internal":
		complain("E-3: the domain is %v", info["domain"])
	}
	if wanted := detailsOfType[code]; wanted != "" && types[wanted] == nil {
		complain("E-6: %s without %s", code, wanted)
	}
	if message == "" || technology.MatchString(message) {
		complain("E-10: the message %q", message)
	}
	metadata, _ := info["metadata"].(map[string]any)
	wrong = append(wrong, checkMetadata(message, metadata)...)
	if other := knownReasons.note(reason, code); other != "" {
		complain("E-7: the reason %s has been seen with %s and with %s", reason, other, code)
	}
	return wrong
}

// checkMetadata checks that the dynamic parts of a message can be read without
// parsing it: what it quotes, names of resources, etags and numbers.
func checkMetadata(message string, metadata map[string]any) []string {
	var wrong []string
	var all strings.Builder
	for key, value := range metadata {
		if !metadataKey.MatchString(key) {
			wrong = append(wrong, fmt.Sprintf("E-4: the metadata key %q has the wrong form", key))
		}
		fmt.Fprintf(&all, "%v\n", value)
	}
	parts := dynamicPart.FindAllString(message, -1)
	for _, m := range quotedPart.FindAllStringSubmatch(message, -1) {
		parts = append(parts, m[1])
	}
	for _, part := range parts {
		if !strings.Contains(all.String(), part) {
			wrong = append(wrong, fmt.Sprintf("E-4: %q of the message is not in the metadata", part))
		}
	}
	return wrong
}

// reasonBook remembers the code that each reason came with.
type reasonBook struct {
	sync.Mutex
	codes map[string]string
}

var knownReasons = reasonBook{codes: map[string]string{}}

// note returns the other code that the reason has been seen with, if there is one.
func (b *reasonBook) note(reason, code string) string {
	b.Lock()
	defer b.Unlock()
	if other, ok := b.codes[reason]; ok && other != code {
		return other
	}
	b.codes[reason] = code
	return ""
}

// TestErrorFormIsChecked checks the checker: what every error of the table is held to.
func TestErrorFormIsChecked(t *testing.T) {
	t.Parallel()
	info := `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TEST_ONLY","domain":"understudy.internal","metadata":{"resource":"r1"}}`
	for name, test := range map[string]struct {
		status int
		body   string
		wrong  string
	}{
		"right":        {409, `{"error":{"code":409,"status":"ABORTED","message":"'r1' changed.","details":[` + info + `]}}`, ""},
		"no envelope":  {404, `{"code":5,"message":"x"}`, "E-1"},
		"wrong status": {400, `{"error":{"code":400,"status":"ABORTED","message":"m","details":[` + info + `]}}`, "E-2"},
		"no info":      {409, `{"error":{"code":409,"status":"ABORTED","message":"m"}}`, "E-3"},
		"not in facts": {409, `{"error":{"code":409,"status":"ABORTED","message":"'r2' changed.","details":[` + info + `]}}`, "E-4"},
		"twice":        {409, `{"error":{"code":409,"status":"ABORTED","message":"m","details":[` + info + `,` + info + `]}}`, "E-5"},
		"no violation": {400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"m","details":[` + strings.Replace(info, "TEST_ONLY", "TEST_OTHER", 1) + `]}}`, "E-6"},
		"technology":   {409, `{"error":{"code":409,"status":"ABORTED","message":"Redis is down","details":[` + info + `]}}`, "E-10"},
	} {
		var envelope any
		if err := json.Unmarshal([]byte(test.body), &envelope); err != nil {
			t.Fatal(err)
		}
		wrong := strings.Join(checkErrorForm(test.status, envelope), "; ")
		if !strings.HasPrefix(wrong, test.wrong) || (test.wrong == "") != (wrong == "") {
			t.Errorf("%s: %q instead of %q", name, wrong, test.wrong)
		}
	}
}
