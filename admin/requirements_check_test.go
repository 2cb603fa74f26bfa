package admin_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// value evaluates an operand of a check: a path, a variable, JSON or a bare word.
func (r *row) value(expression string) any {
	expression = strings.TrimSpace(expression)
	if strings.HasPrefix(expression, ".") || strings.HasPrefix(expression, "op") && isPath(expression) {
		return r.find(expression)
	}
	if m := variable.FindStringSubmatch(expression); m != nil && m[0] == expression {
		return r.lookup(m[1], m[2])
	}
	var decoded any
	if err := json.Unmarshal([]byte(r.body(expression)), &decoded); err == nil {
		return decoded
	}
	return r.expand(expression, plain)
}

func isPath(expression string) bool {
	return expression == "op" || strings.HasPrefix(expression, "op.")
}

// find returns what a path leads to, which has to be there.
func (r *row) find(path string) any {
	r.Helper()
	r.expectSuccess()
	value, ok := r.seek(path)
	if !ok {
		r.fatalf("there is no %s in\n%s", path, asJSON(r.document))
	}
	return value
}

func (r *row) seek(path string) (any, bool) {
	if isPath(path) {
		return dig(r.operation, path[len("op"):])
	}
	return dig(r.document, path)
}

// operands splits the rest of a check into its path and what follows.
func (r *row) operands(rest string) (path, operand string) {
	r.expectSuccess()
	path, operand, _ = strings.Cut(rest, " ")
	return path, strings.TrimSpace(operand)
}

func (r *row) checkIs(rest string) {
	path, operand := r.operands(rest)
	if diff := cmp.Diff(r.value(operand), r.find(path)); diff != "" {
		r.fatalf("%s (-want +got):\n%s", path, diff)
	}
}

func (r *row) checkNot(rest string) {
	path, operand := r.operands(rest)
	if got := r.find(path); cmp.Equal(r.value(operand), got) {
		r.fatalf("%s is %s", path, asJSON(got))
	}
}

func (r *row) checkSame(rest string) {
	a, b := r.operands(rest)
	if diff := cmp.Diff(r.value(a), r.value(b)); diff != "" {
		r.fatalf("%s and %s differ:\n%s", a, b, diff)
	}
}

func (r *row) checkMatches(rest string) {
	path, operand := r.operands(rest)
	form, err := regexp.Compile(r.expand(operand, func(v any) string { return regexp.QuoteMeta(plain(v)) }))
	if err != nil {
		r.fatalf("%v", err)
	}
	if got := plain(r.find(path)); !form.MatchString(got) {
		r.fatalf("%s is %q, which does not match %s", path, got, form)
	}
}

func (r *row) checkHas(path string) {
	switch got := r.find(path).(type) {
	case nil:
		r.fatalf("%s is null", path)
	case string:
		if got == "" {
			r.fatalf("%s is empty", path)
		}
	}
}

func (r *row) checkAbsent(path string) {
	r.expectSuccess()
	if got, ok := r.seek(path); ok {
		r.fatalf("%s is there: %s", path, asJSON(got))
	}
}

func (r *row) checkCount(rest string) {
	path, want := r.operands(rest)
	n := 0
	switch got, _ := r.seek(path); got := got.(type) {
	case []any:
		n = len(got)
	case map[string]any:
		n = len(got)
	}
	if fmt.Sprint(n) != r.expand(want, plain) {
		r.fatalf("%s has %d items instead of %s\n%s", path, n, want, asJSON(r.document))
	}
}

func (r *row) checkIDs(rest string) {
	path, want := r.operands(rest)
	var got []string
	list, _ := r.seek(path)
	items, _ := list.([]any)
	for _, item := range items {
		name, _ := dig(item, ".name")
		text := fmt.Sprint(name)
		got = append(got, text[strings.LastIndexByte(text, '/')+1:])
	}
	if wanted := strings.Fields(r.expand(want, plain)); !cmp.Equal(wanted, got) && len(wanted)+len(got) > 0 {
		r.fatalf("%s are %v instead of %v", path, got, wanted)
	}
}

// checkNow is `now .startTime`. Servers may keep times to the microsecond.
func (r *row) checkNow(path string) {
	got := r.timeAt(path)
	sent, received := r.answer.sent.Truncate(time.Microsecond), r.answer.received
	if got.Before(sent) || got.After(received) {
		r.fatalf("%s is %v, which is not between %v and %v", path, got, sent, received)
	}
}

func (r *row) checkLater(rest string) {
	a, b := r.operands(rest)
	if later, earlier := r.timeAt(a), r.timeAt(b); !later.After(earlier) {
		r.fatalf("%s, %v, is not later than %s, %v", a, later, b, earlier)
	}
}

func (r *row) timeAt(expression string) time.Time {
	r.expectSuccess()
	text := plain(r.value(expression))
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !strings.HasSuffix(text, "Z") {
		r.fatalf("%s is no time in RFC 3339 with Z: %q", expression, text)
	}
	return t
}

// checkViolation is `violation field` or `violation field ~ regexp`.
func (r *row) checkViolation(rest string) {
	field, form, _ := strings.Cut(r.expand(rest, plain), " ~ ")
	list, _ := dig(r.document, ".BadRequest.fieldViolations")
	violations, _ := list.([]any)
	pattern, err := regexp.Compile(form)
	if err != nil {
		r.fatalf("%v", err)
	}
	for _, v := range violations {
		name, _ := dig(v, ".field")
		description, _ := dig(v, ".description")
		if name == strings.TrimSpace(field) && pattern.MatchString(fmt.Sprint(description)) {
			return
		}
	}
	r.fatalf("the error has no violation of %s\n%s", rest, asJSON(r.document))
}

// checkHeader is `replies Allow: GET, PATCH`.
func (r *row) checkHeader(rest string) {
	r.needAnswer()
	name, want, _ := strings.Cut(r.expand(rest, plain), ": ")
	if got := r.answer.header.Get(name); got != want {
		r.fatalf("%s: the header %s is %q instead of %q", r.answer.request, name, got, want)
	}
}
