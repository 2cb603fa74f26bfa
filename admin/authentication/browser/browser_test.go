package browser_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"understudy/admin/authentication"
	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
	"understudy/admin/authentication/revocation"
	"understudy/admin/authentication/tokens"
	"understudy/admin/rest"
	"understudy/authz/diagnostics/logtest"
)

// site is a server with a page at /ui/ that says who looks at it, over TLS or not.
type site struct {
	*httptest.Server
	issuer *oidctest.Issuer
	token  string // of the name ci
	logs   *logtest.Buffer
}

func newSite(t *testing.T, tls bool) *site { return newSiteBehind(t, tls, nil) }

// newSiteBehind is a site that browsers reach at a URL, if that is not nil, with issuers next to
// its own.
func newSiteBehind(t *testing.T, tls bool, front *url.URL, others ...*oidctest.Issuer) *site {
	t.Helper()
	return newSiteRevoking(t, tls, front, nil, others...)
}

// newSiteRevoking is a site that refuses anyone who is on a list.
func newSiteRevoking(t *testing.T, tls bool, front *url.URL, revoked *revocation.List, others ...*oidctest.Issuer) *site {
	t.Helper()
	s := &site{issuer: oidctest.New(t), logs: &logtest.Buffer{}}
	token, line, err := tokens.New("ci", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	s.token = token
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := tokens.Open([]string{path}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	issuers := oidc.Issuers{}
	for _, i := range append([]*oidctest.Issuer{s.issuer}, others...) {
		issuer, err := oidc.New(oidc.Config{URL: i.URL, Audiences: []string{"understudy"}, Client: &oidc.Client{ID: "understudy", Scopes: []string{"openid"}}})
		if err != nil {
			t.Fatal(err)
		}
		issuers = append(issuers, issuer)
	}
	a, err := authentication.New(authentication.Config{Tokens: files, Issuers: issuers, Revoked: revoked})
	if err != nil {
		t.Fatal(err)
	}
	login, err := browser.New(browser.Config{
		Authenticator: a, Issuers: issuers, Guard: rest.Guard{Hosts: []string{}}, URL: front,
		Logger: slog.New(slog.NewTextHandler(s.logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p, err := login.Authenticate(r); {
		case r.URL.Path == browser.LoginPath, strings.HasPrefix(r.URL.Path, browser.CallbackPath), r.URL.Path == browser.LogoutPath:
			login.ServeHTTP(w, r)
		case err == nil:
			_, _ = fmt.Fprintf(w, "%s looks at %s", p.Member, r.URL.RequestURI())
		case strings.HasPrefix(r.URL.Path, "/ui/") && r.Method == "GET":
			http.Redirect(w, r, browser.LoginPath+"?"+url.Values{"return": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		default:
			rest.WriteError(w, err)
		}
	}))
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// agent is a browser: it keeps cookies, follows links, and holds to SameSite, which the jar
// of net/http leaves to others.
type agent struct {
	t       *testing.T
	client  *http.Client
	cookies map[string]*http.Cookie
	// server is the host that the cookies are of.
	server string
}

func (s *site) agent(t *testing.T) *agent {
	t.Helper()
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &agent{t, &client, map[string]*http.Cookie{}, s.Listener.Addr().String()}
}

// shown is a page that an agent has arrived at.
type shown struct {
	status int
	url    *url.URL
	header http.Header
	body   string
}

// open navigates to a URL from a page of the same site or of another one, and follows
// redirects and Refresh. A navigation that another site began, or that went through it,
// is cross-site to its end; what a page of this site leads to is not.
func (a *agent) open(method, target string, crossSite bool, form url.Values) shown {
	a.t.Helper()
	for range 10 {
		p := a.request(method, target, crossSite, form)
		next := ""
		if p.status/100 == 3 {
			next = p.header.Get("Location")
			method, form = "GET", nil
		} else if _, after, found := strings.Cut(p.header.Get("Refresh"), "url="); found {
			next, crossSite, method, form = after, false, "GET", nil
		}
		if next == "" {
			return p
		}
		u, err := p.url.Parse(next)
		if err != nil {
			a.t.Fatal(err)
		}
		crossSite = crossSite || u.Host != p.url.Host
		target = u.String()
	}
	a.t.Fatal("redirects without an end")
	return shown{}
}

// request sends one request, with the cookies that SameSite lets it have.
func (a *agent) request(method, target string, crossSite bool, form url.Values) shown {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, target, strings.NewReader(form.Encode()))
	if err != nil {
		a.t.Fatal(err)
	}
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Sec-Fetch-Site", map[bool]string{true: "cross-site", false: "same-origin"}[crossSite])
	for _, c := range a.cookies {
		sent := !crossSite || c.SameSite == http.SameSiteLaxMode && method == "GET"
		if r.URL.Host == a.server && strings.HasPrefix(r.URL.Path, c.Path) && sent {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
	response, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range response.Cookies() {
		a.cookies[c.Name] = c
		if c.MaxAge < 0 {
			delete(a.cookies, c.Name)
		}
	}
	return shown{response.StatusCode, r.URL, response.Header, string(body)}
}

var issuerLink = regexp.MustCompile(`href="([^"]*with=[^"]*)"`)

// name is that of the issuer in the addresses of its logins.
func (s *site) name() string { return oidc.NameOf(s.issuer.URL) }

// loginURL is where a login at the issuer begins, callback where it comes back to.
func (s *site) loginURL() string { return s.URL + browser.LoginPath + "?with=" + s.name() }
func (s *site) callback() string { return s.URL + browser.CallbackPath + s.name() }

// TestALoginAtTheIssuer from a page, over the login and the issuer, back to the page.
func TestALoginAtTheIssuer(t *testing.T) {
	for name, tls := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tls)
			a := s.agent(t)
			p := a.open("GET", s.URL+"/ui/policies/shop?tab=report", false, nil)
			link := issuerLink.FindStringSubmatch(p.body)
			if p.status != 200 || p.url.Path != browser.LoginPath || link == nil {
				t.Fatalf("without a session: %d %s\n%s", p.status, p.url, p.body)
			}
			p = a.open("GET", s.URL+strings.ReplaceAll(link[1], "&amp;", "&"), false, nil)
			if want := "oidc:" + s.issuer.URL + "#ann looks at /ui/policies/shop?tab=report"; p.status != 200 || p.body != want {
				t.Fatalf("after the login: %d %s, want %s", p.status, p.body, want)
			}
			if len(a.cookies) != 1 {
				t.Errorf("the browser has %d cookies, want the session alone", len(a.cookies))
			}
			for _, c := range a.cookies {
				if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure != tls || c.MaxAge <= 0 || c.MaxAge > 3600 || strings.HasPrefix(c.Name, "__Host-") != tls || c.Domain != "" {
					t.Errorf("the session is kept as %s", c)
				}
			}
			if p := a.open("GET", s.URL+"/v1/projects", false, nil); p.status != 401 && tls {
				t.Errorf("the API takes a session: %d %s", p.status, p.body)
			}
			if p := a.open("POST", s.URL+"/ui/policies/shop", true, nil); p.status != 401 {
				t.Errorf("a form of another site: %d", p.status)
			}
			p = a.open("POST", s.URL+browser.LogoutPath, false, nil)
			if p.url.Path != browser.LoginPath || len(a.cookies) != 0 {
				t.Errorf("after the logout: %s, %d cookies", p.url, len(a.cookies))
			}
		})
	}
}

// TestPastedTokens are taken if they are good, and shown nowhere.
func TestPastedTokens(t *testing.T) {
	s := newSite(t, true)
	for name, c := range map[string]struct {
		token string
		want  int
		text  string
	}{
		"a token":                {"  " + s.token + "\n", 200, "token:ci looks at /ui/x"},
		"a token of the issuer":  {s.issuer.Token(nil), 200, "#ann looks at /ui/x"},
		"an unknown one":         {"ustk_hunter2", 401, "not known here"},
		"an expired one":         {s.issuer.Token(map[string]any{"exp": 1}), 401, "has expired"},
		"none":                   {"", 401, "none at all"},
		"markup":                 {"<script>", 401, "characters"},
		"too large for a cookie": {s.issuer.Token(map[string]any{"x": strings.Repeat("x", 5000)}), 400, "keeps 3800 in a cookie"},
		"too large for anything": {strings.Repeat("x", 100_000), 400, "cannot be read: it has more than 65536 bytes, and a browser keeps a token of 3800"},
	} {
		a := s.agent(t)
		p := a.open("POST", s.URL+browser.LoginPath, false, url.Values{"token": {c.token}, "return": {"/ui/x"}})
		if p.status != c.want || !strings.Contains(p.body, c.text) {
			t.Errorf("%s: %d, want %d with %q\n%s", name, p.status, c.want, c.text, p.body)
		}
		if got := p.header.Get("WWW-Authenticate"); (got != "") != (c.want == 401) {
			t.Errorf("%s: %d has the challenge %q", name, p.status, got)
		}
		if (len(a.cookies) == 1) != (c.want == 200) {
			t.Errorf("%s: %d cookies", name, len(a.cookies))
		}
		if c.want != 200 && len(c.token) > 5 && strings.Contains(p.body, c.token) {
			t.Errorf("%s: the page repeats the token", name)
		}
	}
	if p := s.agent(t).open("POST", s.URL+browser.LoginPath, true, url.Values{"token": {s.token}}); p.status != 403 {
		t.Errorf("a form of another site logs in: %d", p.status)
	}
}

// TestReturnPaths: whatever a link to the login says, the browser stays on this site.
func TestReturnPaths(t *testing.T) {
	s := newSite(t, true)
	for path, want := range map[string]string{
		"/ui/a?b=c%20d":                      "/ui/a?b=c%20d",
		"/ui/":                               "/ui/",
		"":                                   "/ui/",
		"https://evil.example.com/ui/":       "/ui/",
		"//evil.example.com/ui/":             "/ui/",
		`/\evil.example.com`:                 "/ui/",
		`/ui/\evil.example.com`:              "/ui/",
		"/ui//evil.example.com":              "/ui/",
		"/ui/../..//evil.example.com":        "/ui/",
		"/ui/%2e%2e/x":                       "/ui/",
		"/ui/a\r\nSet-Cookie: x=y":           "/ui/",
		"/ui/\tx":                            "/ui/",
		"/ui/x\";url=//evil.example.com":     "/ui/",
		"/ui":                                "/ui/",
		"/v1/projects":                       "/ui/",
		"/ui/logout":                         "/ui/",
		"/ui/callback/x?code=y":              "/ui/",
		"/ui/login?return=/ui/login":         "/ui/",
		"javascript:alert(1)":                "/ui/",
		"/ui/" + strings.Repeat("a", 10_000): "/ui/",
	} {
		p := s.agent(t).open("POST", s.URL+browser.LoginPath, false, url.Values{"token": {s.token}, "return": {path}})
		if p.status != 200 || p.url.Host != s.Listener.Addr().String() || p.body != "token:ci looks at "+want {
			t.Errorf("%.80q leads to %s: %s, want %s", path, p.url, p.body, want)
		}
	}
}

// TestForeignCallbacks: a login that was not begun in this browser does not end in it.
func TestForeignCallbacks(t *testing.T) {
	s := newSite(t, true)
	begin := func(a *agent) *url.URL {
		p := a.request("GET", s.loginURL(), false, nil)
		u, err := url.Parse(p.header.Get("Location"))
		if err != nil || p.status != 303 {
			t.Fatalf("%d %v", p.status, err)
		}
		return u
	}
	// code lets the issuer log in anyone who began at a URL.
	code := func(at *url.URL) string {
		p := s.agent(t).request("GET", at.String(), true, nil)
		return p.header.Get("Location")
	}
	victim, attacker := s.agent(t), s.agent(t)
	at := begin(attacker)
	if p := victim.open("GET", code(at), true, nil); p.status != 400 || len(victim.cookies) != 0 {
		t.Errorf("a login of another browser: %d, %d cookies", p.status, len(victim.cookies))
	}
	begin(victim)
	if p := victim.open("GET", code(at), true, nil); p.status != 400 || len(victim.cookies) != 0 {
		t.Errorf("a login of another browser, while one is under way: %d, %d cookies", p.status, len(victim.cookies))
	}
	// A code of another login by the state of this one: PKCE has the issuer refuse it.
	mine, theirs := begin(victim), begin(attacker)
	back, err := url.Parse(code(theirs))
	if err != nil {
		t.Fatal(err)
	}
	q := back.Query()
	q.Set("state", mine.Query().Get("state"))
	back.RawQuery = q.Encode()
	if p := victim.open("GET", back.String(), true, nil); p.status != 401 || len(victim.cookies) != 0 {
		t.Errorf("a code of another login: %d, %d cookies", p.status, len(victim.cookies))
	}
	// A token of another login.
	s.issuer.SetClaims(map[string]any{"nonce": "another"})
	if p := victim.open("GET", begin(victim).String(), false, nil); p.status != 401 || len(victim.cookies) != 0 || !strings.Contains(p.body, "nonce") {
		t.Errorf("a token of another login: %d, %d cookies\n%s", p.status, len(victim.cookies), p.body)
	}
	// A token that could be read as another one's.
	s.issuer.SetClaims(map[string]any{"SUB": "root"})
	if p := victim.open("GET", begin(victim).String(), false, nil); p.status != 401 || len(victim.cookies) != 0 || !strings.Contains(p.body, "&#39;sub&#39;") {
		t.Errorf("a token with a second subject: %d, %d cookies\n%s", p.status, len(victim.cookies), p.body)
	}
	s.issuer.SetClaims(nil)
	// The user says no.
	no := begin(victim)
	if p := victim.open("GET", s.callback()+"?error=access_denied&state="+no.Query().Get("state"), true, nil); p.status != 401 {
		t.Errorf("a login that the issuer refuses: %d", p.status)
	}
	if p := victim.open("GET", s.callback()+"?code=x&state="+no.Query().Get("state"), true, nil); p.status != 400 {
		t.Errorf("a login that has ended is taken again: %d", p.status)
	}
	for name, value := range map[string]string{"garbage": "e30", "no JSON": "!!"} {
		victim.cookies = map[string]*http.Cookie{"__Host-understudy-login": {Name: "__Host-understudy-login", Value: value, Path: "/"}}
		if p := victim.open("GET", s.callback()+"?code=x&state=", false, nil); p.status != 400 {
			t.Errorf("a cookie with %s: %d", name, p.status)
		}
	}
}

func TestTheIssuerIsAway(t *testing.T) {
	s := newSite(t, true)
	s.issuer.SetDown(true)
	if p := s.agent(t).open("GET", s.loginURL(), false, nil); p.status != 503 || !strings.Contains(p.body, "cannot be reached") {
		t.Errorf("got %d\n%s", p.status, p.body)
	}
}

// TestPagesAreProtected against frames, scripts, and being kept.
func TestPagesAreProtected(t *testing.T) {
	s := newSite(t, true)
	p := s.agent(t).open("GET", s.URL+browser.LoginPath+"?return=/ui/%22%3E%3Cscript%3E", false, nil)
	csp := p.header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "script") ||
		p.header.Get("Cache-Control") != "no-store" || strings.Contains(p.body, "<script") {
		t.Errorf("got %v\n%s", p.header, p.body)
	}
	for _, c := range [][2]string{{"GET", browser.LogoutPath}, {"PUT", browser.LoginPath}, {"POST", browser.CallbackPath + "x"}} {
		if p := s.agent(t).open(c[0], s.URL+c[1], false, nil); p.status != 404 {
			t.Errorf("%v: %d", c, p.status)
		}
	}
	if p := s.agent(t).open("POST", s.URL+browser.LogoutPath, true, nil); p.status != 403 {
		t.Errorf("another site logs out: %d", p.status)
	}
}

// TestTwoSessions: a browser with two cookies of one name has none.
func TestTwoSessions(t *testing.T) {
	s := newSite(t, true)
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/ui/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.AddCookie(&http.Cookie{Name: "__Host-understudy-session", Value: s.token})
	}
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 401 {
		t.Errorf("got %s", response.Status)
	}
}

// TestBehindAProxy with TLS: the browser comes back to the proxy, and keeps the session for
// TLS alone.
func TestBehindAProxy(t *testing.T) {
	s := newSiteBehind(t, false, &url.URL{Scheme: "https", Host: "understudy.example.com"})
	a := s.agent(t)
	p := a.request("GET", s.loginURL(), false, nil)
	at, err := url.Parse(p.header.Get("Location"))
	if err != nil || at.Query().Get("redirect_uri") != "https://understudy.example.com"+browser.CallbackPath+s.name() {
		t.Errorf("the issuer sends the browser to %s, %v", at, err)
	}
	a.request("POST", s.URL+browser.LoginPath, false, url.Values{"token": {s.token}})
	if c := a.cookies["__Host-understudy-session"]; c == nil || !c.Secure || c.Path != "/" {
		t.Errorf("the session is kept as %v", c)
	}
}

// TestRevokedPrincipalsGetNoSession, by a token and by a login, and get the reason.
func TestRevokedPrincipalsGetNoSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(file, []byte("allAuthenticated\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := revocation.Open(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteRevoking(t, true, nil, list)
	a := s.agent(t)
	for name, p := range map[string]shown{
		"a token": a.open("POST", s.URL+browser.LoginPath, false, url.Values{"token": {s.token}}),
		"a login": a.open("GET", s.loginURL(), false, nil),
	} {
		if p.status != 401 || !strings.Contains(p.body, "is revoked on this server") || len(a.cookies) != 0 {
			t.Errorf("%s: %d, %d cookies\n%s", name, p.status, len(a.cookies), p.body)
		}
	}
}

// TestFailuresAreLoggedInBounds: nobody needs an account to fail.
func TestFailuresAreLoggedInBounds(t *testing.T) {
	s := newSite(t, true)
	a := s.agent(t)
	for range 50 {
		p := a.request("GET", s.loginURL(), false, nil)
		at, err := url.Parse(p.header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		a.open("GET", s.callback()+"?error=no%0Aaccess&state="+at.Query().Get("state"), true, nil)
	}
	got := strings.Count(s.logs.String(), "\n")
	if got == 0 || got > 20 {
		t.Errorf("50 failures have %d lines, want a few\n%s", got, s.logs)
	}
}
