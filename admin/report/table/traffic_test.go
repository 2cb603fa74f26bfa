package table_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of traffic. The requests of a morning and of an overloaded day are some of those that
// meet the change: what had come between 06:00 and 12:00, and what chance chose.
const (
	meets      = "meets"
	never      = "never"
	once       = "once"
	morning    = "morning"
	overloaded = "overloaded"
)

var traffics = []string{meets, never, once, morning, overloaded}

const (
	// oneIn is the weight of a request under overload: one in so many of each template is compared.
	oneIn = 4
	// examinedOneIn is how many of each template make one that is examined for items as well.
	examinedOneIn = 8
	// usual is how many requests a template has in a traffic that does not say.
	usual = 48
	// callers is how many callers the requests of a template have.
	callers = 12
)

// monday is the beginning of all traffic.
var monday = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// template is a request, up to its number and its time.
type template struct {
	method, path, token string
	headers             map[string]string
	// from and to are the time of its requests, as times since monday.
	from, to time.Duration
}

// part is so many requests of a template in a traffic.
type part struct {
	template string
	count    int
}

// request is one request of a traffic.
type request struct {
	// number counts the requests of the same template from 0.
	id     string
	number int
	at     time.Time
	// input is the document that policies read, as opa-envoy-plugin makes it.
	input map[string]any
}

var window = regexp.MustCompile(`^@(\d+):(\d\d)-(\d+):(\d\d)$`)

// readTemplate reads `name METHOD path`, and then, in any order, `@08:00-18:00`, `token={…}` and
// `header=value`.
func (r *row) readTemplate(line string) error {
	words := strings.Fields(line)
	if len(words) < 3 {
		return fmt.Errorf("it is no request: name METHOD path")
	}
	made := &template{method: words[1], path: words[2], headers: make(map[string]string), to: 24 * time.Hour}
	for _, word := range words[3:] {
		if times := window.FindStringSubmatch(word); times != nil {
			made.from, made.to = clock(times[1], times[2]), clock(times[3], times[4])
			continue
		}
		name, value, found := strings.Cut(word, "=")
		switch {
		case !found:
			return fmt.Errorf("%s has no value", word)
		case name == "token":
			made.token = value
		default:
			made.headers[name] = value
		}
	}
	r.templates[words[0]] = made
	return nil
}

func clock(hours, minutes string) time.Duration {
	h, _ := strconv.Atoi(hours)
	m, _ := strconv.Atoi(minutes)
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
}

// readMix reads `meets template 8*template …`, and the same of never and once.
func (r *row) readMix(line string) error {
	words := strings.Fields(line)
	for _, word := range words[1:] {
		p := part{word, usual}
		if count, name, found := strings.Cut(word, "*"); found {
			n, err := strconv.Atoi(count)
			if err != nil {
				return err
			}
			p = part{name, n}
		}
		if words[0] == once {
			p.count = 1
		}
		if r.templates[p.template] == nil {
			return fmt.Errorf("there is no request %s", p.template)
		}
		r.mixes[words[0]] = append(r.mixes[words[0]], p)
	}
	return nil
}

// requests returns all requests of a traffic that are compared, in the order of their times.
func (r *row) requests(traffic string) (out []*request) {
	switch traffic {
	case meets, never:
		out = r.mixed(traffic)
	case once:
		out = append(r.mixed(never), r.mixed(once)...)
	case morning:
		out = slices.DeleteFunc(r.mixed(meets), func(q *request) bool {
			since := q.at.Sub(monday)
			return since < 6*time.Hour || since >= 12*time.Hour
		})
	case overloaded:
		out = slices.DeleteFunc(r.mixed(meets), func(q *request) bool { return q.number%oneIn != 0 })
	}
	slices.SortStableFunc(out, func(a, b *request) int { return a.at.Compare(b.at) })
	return out
}

// mixed makes the requests of meets, never or once.
func (r *row) mixed(traffic string) (out []*request) {
	for _, p := range r.mixes[traffic] {
		for n := range p.count {
			out = append(out, r.templates[p.template].request(traffic+"-"+p.template, n, p.count))
		}
	}
	return out
}

// request makes number n of so many, which are spread evenly over the time of the template.
func (t *template) request(name string, n, of int) *request {
	step := (t.to - t.from) / time.Duration(of)
	text := func(s string) string { return numbered(s, n).(string) }
	headers := make(map[string]any, len(t.headers)+1)
	for name, value := range t.headers {
		headers[name] = text(value)
	}
	if t.token != "" {
		headers["authorization"] = "Bearer " + unsigned(text(t.token))
	}
	path := text(t.path)
	bare, rawQuery, _ := strings.Cut(path, "?")
	query := make(map[string]any)
	values, _ := url.ParseQuery(rawQuery)
	for name, list := range values {
		for _, v := range list {
			before, _ := query[name].([]any)
			query[name] = append(before, v)
		}
	}
	var segments []any
	for segment := range strings.SplitSeq(strings.Trim(bare, "/"), "/") {
		segments = append(segments, segment)
	}
	return &request{
		id: fmt.Sprintf("%s-%d", name, n), number: n, at: monday.Add(t.from + step*time.Duration(n) + step/2),
		input: map[string]any{
			"attributes": map[string]any{
				"source":  map[string]any{"principal": fmt.Sprint("spiffe://shop/caller", n%callers)},
				"request": map[string]any{"http": map[string]any{"method": t.method, "path": path, "host": "shop", "headers": headers}},
			},
			"parsed_path": segments, "parsed_query": query,
		},
	}
}

// unsigned returns a token of claims. Its signature is none: the policies of the table do not verify.
func unsigned(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("none"))
}
