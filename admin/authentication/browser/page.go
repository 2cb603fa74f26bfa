package browser

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"understudy/admin/access"
)

// Page is what a layout puts its frame around.
type Page struct {
	// Status is that of HTTP, Title the title of the page.
	Status int
	Title  string
	// Body is what the page shows: HTML without scripts and styles. Its classes are
	// problem (a paragraph) and login (a form).
	Body template.HTML
}

// Layout writes a page: Content-Type, Content-Security-Policy if the one that is set does
// not fit, the status and the HTML. Its policy has no script, form-action 'self' and
// frame-ancestors 'none'.
type Layout func(w http.ResponseWriter, r *http.Request, p Page)

// policy is the Content-Security-Policy of a page without scripts and styles.
const policy = "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// issuerAway is what a browser is shown while an issuer cannot be asked, behind its name.
const issuerAway = " cannot be reached now. Try again later, or log in in another way."

// tooManyLogins is shown to a browser that comes back while maxExchanges others do.
const tooManyLogins = "Too many logins are completed at the moment. Log in again in a few seconds, or paste a token."

// protect sets what every answer has.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	// Not no-referrer: it makes browsers send Origin: null with a form of this page.
	h.Set("Referrer-Policy", "same-origin")
}

var (
	frame = template.Must(template.New("frame").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}} - Understudy</title></head>
<body><main><h1>{{.Title}}</h1>
{{.Body}}</main></body></html>
`))
	form = template.Must(template.New("form").Parse(`{{with .Problem}}<p class="problem" role="alert">{{.}}</p>
{{end}}{{range .Issuers}}<p><a href="{{.URL}}">Log in with {{.Name}}</a></p>
{{end}}<form class="login" method="post" action="` + LoginPath + `">
<input type="hidden" name="return" value="{{.Return}}">
<label for="token">Token</label> <input id="token" name="token" type="password" autocomplete="off" required aria-describedby="about-token">
<p class="quiet" id="about-token">The operator of this server gives you one. The command line uses the same.</p>
<button>Log in</button>
</form>
`))
	problemText = template.Must(template.New("problem").Parse("<p class=\"problem\" role=\"alert\">{{.}}</p>\n"))
	onwardText  = template.Must(template.New("onward").Parse("<p><a href=\"{{.}}\">Go on</a></p>\n"))
)

// show writes a page. A 401 has the challenge that RFC 9110, section 15.5.2 asks for.
func (l *Login) show(w http.ResponseWriter, r *http.Request, status int, title string, body template.HTML) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", access.Challenge)
	}
	l.config.Layout(w, r, Page{Status: status, Title: title, Body: body})
}

// plain is the layout without one.
func plain(w http.ResponseWriter, _ *http.Request, p Page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	_ = frame.Execute(w, p)
}

// choice is an issuer that a browser can log in at.
type choice struct{ Name, URL string }

// form is how to log in. The way to an issuer is a link and no form, because browsers
// hold a form's redirects to form-action too.
func (l *Login) form(back, problem string) template.HTML {
	var issuers []choice
	for _, i := range l.config.Issuers {
		if i.LogsIn() {
			q := url.Values{"with": {i.Name()}, "return": {back}}
			issuers = append(issuers, choice{i.Name(), LoginPath + "?" + q.Encode()})
		}
	}
	return html(form, struct {
		Problem, Return string
		Issuers         []choice
	}{problem, back, issuers})
}

// problem is a page's only content: what is wrong.
func problem(text string) template.HTML { return html(problemText, text) }

// onward leads on where a browser does not by itself.
func onward(path string) template.HTML { return html(onwardText, path) }

// html is what a template makes of data.
func html(t *template.Template, data any) template.HTML {
	var b strings.Builder
	_ = t.Execute(&b, data)
	return template.HTML(b.String())
}
