package browser

import (
	"net/http"
	"net/url"
	"strings"
)

// home is where a browser goes that came from nowhere.
const home = "/ui/"

// maxReturn bounds a path to go back to, in bytes: it is in a cookie.
const maxReturn = 1500

// below reports whether a path is one of the page.
func below(path string) bool { return strings.HasPrefix(path, home) }

// returnPath returns a path below /ui/ to go back to, home for anything else: anyone who makes a
// link to the login could lead to a site of its own. The pages of the login are none either.
func returnPath(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxReturn || strings.ContainsFunc(text, unfit) || !below(text),
		u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "",
		strings.Contains(u.Path, "//"), strings.Contains(u.Path, "/."), strings.Contains(u.Path, `\`),
		u.Path == LoginPath || strings.HasPrefix(u.Path, CallbackPath) || u.Path == LogoutPath:
		return home
	}
	return text
}

// unfit reports whether browsers drop a character of a URL, or read it as another one.
func unfit(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`\"'<>`, r) }

// base is the scheme and host by which browsers reach the server.
func (l *Login) base(r *http.Request) string {
	if l.config.URL != nil {
		return l.config.URL.Scheme + "://" + l.config.URL.Host
	}
	scheme := "http://"
	if l.secure(r) {
		scheme = "https://"
	}
	return scheme + r.Host
}
