package authz

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"understudy/authz/diagnostics"
)

// parseResult turns the value of a rule into a decision. The value is a boolean,
// or an object with `allowed` and the fields of resultFields. A field that is
// unknown is ignored, as opa-envoy-plugin does; one with the wrong type makes the
// whole result a failure, for half a decision would be another one. The reason of a
// failure names the field and quotes nothing of it: any part of a result may be
// made of the request.
func parseResult(value any) Decision {
	switch v := value.(type) {
	case bool:
		return Decision{Effect: effectOf(v), Plain: true}
	case map[string]any:
		return parseObject(v)
	default:
		return Failed(FailureType, fmt.Sprintf("The rule is %s; it has to be a boolean or an object.", TypeName(value)))
	}
}

// ResultOf returns the decision that the value of a rule stands for, in the types of
// encoding/json: of one that was recorded, which no policy here has made.
func ResultOf(value any) Decision {
	d := parseResult(value)
	d.Value = value
	return d
}

func effectOf(allowed bool) Effect {
	if allowed {
		return Allow
	}
	return Deny
}

// resultFields are the fields of an object result, in the order in which they are
// checked. Each parses its value into a decision.
var resultFields = []resultField{
	{"headers", func(d *Decision, v any) (err error) { d.Headers, err = headerFields(v); return err }},
	{"response_headers_to_add", func(d *Decision, v any) (err error) { d.ResponseHeaders, err = responseFields(v); return err }},
	{"request_headers_to_remove", func(d *Decision, v any) (err error) { d.RemoveHeaders, err = headerNames(v); return err }},
	{"query_parameters_to_set", func(d *Decision, v any) (err error) { d.SetQuery, err = queryFields(v); return err }},
	{"query_parameters_to_remove", func(d *Decision, v any) (err error) { d.RemoveQuery, err = queryNames(v); return err }},
	{"body", func(d *Decision, v any) (err error) { d.Body, err = text(v); return err }},
	{"http_status", func(d *Decision, v any) (err error) { d.HTTPStatus, err = httpStatus(v); return err }},
	{"dynamic_metadata", func(d *Decision, v any) (err error) { d.Metadata, err = metadata(v); return err }},
	{"reason", func(d *Decision, v any) error { d.Reason, _ = v.(string); return nil }},
	{"labels", func(d *Decision, v any) error { d.Labels, d.LabelsIgnored = labels(v); return nil }},
}

// resultField is a field of an object result.
type resultField struct {
	name  string
	parse func(d *Decision, value any) error
}

// fits checks what an effect makes of the headers in a field.
func (f resultField) fits(d *Decision) error {
	switch {
	case f.name == "headers" && d.Effect == Deny:
		// The headers of a denial go to the client, in a message of Envoy's own.
		return refusePseudo(d.Headers)
	case f.name == "headers":
		return refuseFraming(d.Headers)
	case f.name == "response_headers_to_add" && d.Effect == Allow:
		return refuseFraming(d.ResponseHeaders)
	}
	return nil
}

func parseObject(o map[string]any) Decision {
	allowed, ok := o["allowed"].(bool)
	if !ok {
		return Failed(FailureType, "The field allowed is "+TypeName(o["allowed"])+"; it has to be a boolean.")
	}
	d := Decision{Effect: effectOf(allowed)}
	for _, f := range resultFields {
		value, present := o[f.name]
		if !present {
			continue
		}
		err := f.parse(&d, value)
		if err == nil {
			err = f.fits(&d)
		}
		if err != nil {
			return Failed(FailureType, "The field "+f.name+" "+err.Error()+".")
		}
	}
	d.dropUnused()
	return d
}

// dropUnused clears what the effect gives no meaning to, so that two decisions
// that look the same to Envoy compare as the same.
func (d *Decision) dropUnused() {
	if d.Effect == Deny {
		d.ResponseHeaders, d.RemoveHeaders, d.SetQuery, d.RemoveQuery = nil, nil, nil, nil
		return
	}
	d.Body, d.HTTPStatus = "", 0
}

// headerFields parses an object of headers, or an array of such objects.
func headerFields(value any) ([]Field, error) {
	objects, ok := value.([]any)
	if !ok {
		objects = []any{value}
	}
	var out []Field
	for _, o := range objects {
		parsed, err := fields(o)
		if err != nil {
			return nil, err
		}
		out = append(out, parsed...)
	}
	for _, f := range out {
		if !validHeaderName(f.Name) {
			return nil, fmt.Errorf("has a key that is no header name")
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) || !utf8.ValidString(f.Value) {
			return nil, fmt.Errorf("has a value that is no header value")
		}
	}
	return out, nil
}

// responseFields parses headers of a response, which has no pseudo-headers to set.
func responseFields(value any) ([]Field, error) {
	out, err := headerFields(value)
	if err != nil {
		return nil, err
	}
	return out, refusePseudo(out)
}

func refusePseudo(headers []Field) error {
	for _, h := range headers {
		if strings.HasPrefix(h.Name, ":") {
			return fmt.Errorf("has a pseudo-header, which a response does not have")
		}
	}
	return nil
}

// queryFields parses query parameters, each of which needs a name.
func queryFields(value any) ([]Field, error) {
	out, err := fields(value)
	if err != nil {
		return nil, err
	}
	for _, f := range out {
		if f.Name == "" {
			return nil, fmt.Errorf("has a parameter without a name")
		}
	}
	return out, nil
}

// validHeaderName allows a leading colon: Envoy can set its pseudo-headers.
func validHeaderName(name string) bool {
	return httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, ":"))
}

// fields parses an object whose values are strings or arrays of strings, in the
// order of its keys.
func fields(value any) ([]Field, error) {
	o, err := object(value)
	if err != nil {
		return nil, err
	}
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(o)) {
		values, ok := o[name].([]any)
		if !ok {
			values = []any{o[name]}
		}
		for _, v := range values {
			s, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf("has a value that is %s; it has to be a string or an array of strings", TypeName(v))
			}
			out = append(out, Field{name, s})
		}
	}
	return out, nil
}

func headerNames(value any) ([]string, error) {
	names, err := texts(value)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !validHeaderName(n) {
			return nil, fmt.Errorf("has an element that is no header name")
		}
	}
	return names, nil
}

// queryNames parses the names of query parameters.
func queryNames(value any) ([]string, error) {
	names, err := texts(value)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if n == "" || !utf8.ValidString(n) {
			return nil, fmt.Errorf("has an element that is no parameter name")
		}
	}
	return names, nil
}

func texts(value any) ([]string, error) {
	array, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("is %s; it has to be an array of strings", TypeName(value))
	}
	var out []string
	for _, v := range array {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("has an element that is %s; it has to be a string", TypeName(v))
		}
		out = append(out, s)
	}
	return out, nil
}

func text(value any) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("is %s; it has to be a string", TypeName(value))
	}
	return s, nil
}

func object(value any) (map[string]any, error) {
	o, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %s; it has to be an object", TypeName(value))
	}
	return o, nil
}

// labels parses an object of labels, in the order of their names, and reports whether any
// of it was ignored. Whatever is wrong with it is no failure. Of too many none is taken:
// which ones would be chance.
func labels(value any) (out []Label, ignored bool) {
	o, ok := value.(map[string]any)
	if !ok || len(o) > MaxLabels {
		return nil, true
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		text, ok := o[name].(string)
		if ok && len(text) <= maxLabelValue {
			text = diagnostics.Clean(text)
		}
		l := Label{name, text}
		if !ok || !l.Valid() {
			ignored = true
			continue
		}
		out = append(out, l)
	}
	return out, ignored
}

// maxMetadataDepth bounds the nesting of metadata, in objects and arrays. Envoy
// reads 100 messages within one another, of which an object takes three.
const maxMetadataDepth = 30

// metadata parses an object that Envoy can read. It is refused here and not only
// where it is sent, so that records, metrics and the answer show one decision.
func metadata(value any) (map[string]any, error) {
	o, err := object(value)
	if err != nil {
		return nil, err
	}
	return o, readable(o, 1)
}

// readable returns what Envoy could not read of a value that is so deep in the
// metadata.
func readable(value any, depth int) error {
	var elements iter.Seq[any]
	switch v := value.(type) {
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return fmt.Errorf("has a number that is out of range")
		}
		return nil
	case []any:
		elements = slices.Values(v)
	case map[string]any:
		elements = maps.Values(v)
	default:
		return nil
	}
	if depth > maxMetadataDepth {
		return fmt.Errorf("is nested more than %d levels deep", maxMetadataDepth)
	}
	for e := range elements {
		if err := readable(e, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func httpStatus(value any) (int, error) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, fmt.Errorf("is %s; it has to be a number", TypeName(value))
	}
	code, err := number.Int64()
	if err != nil {
		return 0, fmt.Errorf("is no whole number; it has to be an HTTP status")
	}
	if !knownStatus(code) {
		return 0, fmt.Errorf("is no HTTP status that Envoy can send")
	}
	return int(code), nil
}

// knownStatus reports whether Envoy's list of statuses has the code. It has 100 too,
// but that is no answer to end a request with.
func knownStatus(code int64) bool {
	switch {
	case 200 <= code && code <= 208, code == 226,
		300 <= code && code <= 305, code == 307, code == 308,
		400 <= code && code <= 417, 421 <= code && code <= 424,
		code == 426, code == 428, code == 429, code == 431,
		500 <= code && code <= 508, code == 510, code == 511:
		return true
	}
	return false
}

// TypeName names the type of a value as Rego's users know it.
func TypeName(value any) string {
	switch value.(type) {
	case nil:
		return "missing or null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}

// framingHeaders say where a message ends or belong to one connection (RFC 9110, 7.6.1;
// RFC 9112, 6), by their names in lower case. Proxies add and remove them; Envoy hands on
// what an OK sets. An upstream that gets a content-length waits for that body, and takes
// the next request on the connection for it.
var framingHeaders = map[string]bool{
	"content-length": true, "transfer-encoding": true, "connection": true, "keep-alive": true, "proxy-connection": true,
	"te": true, "trailer": true, "upgrade": true, "http2-settings": true,
}

// FramingHeader reports whether a header is not a policy's to set on a message that
// others send: it frames the message or belongs to a connection.
func FramingHeader(name string) bool { return framingHeaders[strings.ToLower(name)] }

// refuseFraming is the error of fields of which one is a FramingHeader.
func refuseFraming(fields []Field) error {
	for _, f := range fields {
		if FramingHeader(f.Name) {
			return fmt.Errorf("sets %s, which frames the message or belongs to its connection; leave it to the proxy", strings.ToLower(f.Name))
		}
	}
	return nil
}
