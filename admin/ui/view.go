package ui

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/report/verdict"
)

// maxForm bounds a form that is posted, in bytes.
const maxForm = 256 << 10

// view is one page.
type view struct {
	// Title is the heading, and the beginning of the title of the window.
	Title string
	// Kicker is what is above the heading: the kind of thing that the page is about.
	Kicker string
	Crumbs []link
	// Tab is the page of the location's navigation that this belongs to.
	Tab string
	// Location is whose navigation is shown.
	Location string
	// Parts are below the heading, in their order. Their number and IDs do not change while
	// the page is looked at.
	Parts []part
	// Asks says that the page asks something, and does not change under the answer.
	Asks bool
}

// part is a piece of a page that is swapped as a whole.
type part struct {
	// ID is that of its element, and Page the template.
	ID, Page string
	Data     any
	// Version changes with what is shown. It is empty if that is worked out from the HTML,
	// which is for parts that cost little.
	Version string
}

// rendered is a part as HTML.
type rendered struct {
	ID, Version string
	HTML        template.HTML
	// Same says that there is no HTML, since the browser has it.
	Same bool
}

// frame is what the layout gets.
type frame struct {
	*view
	// Version is that of all parts.
	Version  string
	Rendered []rendered
	// Body is HTML in place of parts, of pages that others make.
	Body template.HTML
	// Principal is who looks, with the name for people; empty if nobody is known.
	Principal string
	// Logout says that a session can be ended.
	Logout bool
	Assets assets
}

// have are the versions of parts that a browser has already.
type have map[string]bool

// haveOf reads what the script says of the page that it is about to change.
func haveOf(r *http.Request) have {
	out := make(have)
	for version := range strings.SplitSeq(r.Header.Get("Understudy-Have"), ",") {
		out[version] = true
	}
	return out
}

// render makes the HTML of a part, unless a browser has it already.
func (u *UI) render(p part, h have) (rendered, error) {
	out := rendered{ID: p.ID, Version: p.Version}
	if p.Version != "" && h[p.Version] {
		out.Same = true
		return out, nil
	}
	var b bytes.Buffer
	if err := u.pages.templates.ExecuteTemplate(&b, p.Page, p.Data); err != nil {
		return out, err
	}
	if out.Version == "" {
		out.Version = versionOf(p.ID, b.String())
	}
	if out.Same = h[out.Version]; !out.Same {
		out.HTML = template.HTML(b.String()) // it is what the template has escaped
	}
	return out, nil
}

// versionOf is a short name for what texts say.
func versionOf(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// renderAll renders all parts, and says which version they have together.
func (u *UI) renderAll(v *view, h have) (parts []rendered, version string, err error) {
	var versions []string
	for _, p := range v.Parts {
		r, err := u.render(p, h)
		if err != nil {
			return nil, "", err
		}
		parts, versions = append(parts, r), append(versions, r.Version)
	}
	return parts, versionOf(versions...), nil
}

// show answers with a view, or, if that is what is asked for, with what becomes of it.
func (u *UI) show(w http.ResponseWriter, r *http.Request, find func(*http.Request) (*view, error)) {
	if live(r) {
		u.stream(w, r, find)
		return
	}
	v, err := find(r)
	if err != nil {
		u.writeError(w, r, err)
		return
	}
	u.write(w, r, http.StatusOK, v)
}

// do does what a form asks for. It answers with where the result is seen (303 See Other), so
// that loading that again does nothing again. Whatever is wrong with a form, a caller without
// the permission gets that error alone.
func (u *UI) do(w http.ResponseWriter, r *http.Request, authorize func() error, act func(*http.Request) (*url.URL, *view, error)) {
	to, instead, err := parsed(r, act)
	switch {
	case err != nil:
		u.writeError(w, r, cmp.Or(authorize(), err))
	case instead != nil:
		u.write(w, r, http.StatusConflict, instead)
	default:
		http.Redirect(w, r, to.String(), http.StatusSeeOther)
	}
}

// parsed does what a form asks for that can be read.
func parsed(r *http.Request, act func(*http.Request) (*url.URL, *view, error)) (*url.URL, *view, error) {
	if r.ParseForm() != nil {
		return nil, nil, apierror.Invalid(apierror.ReasonInvalidParameter, "form", "The form cannot be read, or is too large. Load the page again, and send it from there.")
	}
	return act(r)
}

// write sends a view as HTML.
func (u *UI) write(w http.ResponseWriter, r *http.Request, code int, v *view) {
	parts, version, err := u.renderAll(v, haveOf(r))
	if err != nil {
		u.config.Logger.ErrorContext(r.Context(), "a page could not be made", "error", err)
		u.writeError(w, r, apierror.Internal())
		return
	}
	u.writeFrame(w, r, code, frame{view: v, Version: version, Rendered: parts})
}

// Layout writes a page that somebody else makes, such as that of a login, with the layout of
// this one. The body has neither scripts nor styles.
func (u *UI) Layout(w http.ResponseWriter, r *http.Request, code int, title string, body template.HTML) {
	protect(w.Header())
	u.writeFrame(w, r, code, frame{view: &view{Title: title, Asks: true}, Body: body})
}

// writeFrame writes the layout around what a frame has.
func (u *UI) writeFrame(w http.ResponseWriter, r *http.Request, code int, f frame) {
	who := access.FromContext(r.Context())
	f.Principal, f.Assets = who.Named(), u.pages.assets
	f.Logout = u.config.Login != nil && f.Principal != ""
	var b bytes.Buffer
	if err := u.pages.templates.ExecuteTemplate(&b, "layout", f); err != nil {
		u.config.Logger.ErrorContext(r.Context(), "a page could not be made", "error", err)
		http.Error(w, "An internal error occurred. The server's log has its cause.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "Accept") // the same address is a stream, too
	w.WriteHeader(code)
	_, _ = w.Write(visible(b.Bytes()))
}

// verdictView is a verdict with the tone that it is shown in, which says what the word says: nobody
// needs it.
type verdictView struct {
	verdict.Verdict
	// Tone is the class of the colour, and the name of the sign.
	Tone string
}

// viewOf is that of a verdict.
func viewOf(v verdict.Verdict) verdictView {
	tone := map[verdict.Tone]string{verdict.Good: "good", verdict.Look: "look", verdict.Bad: "bad"}[v.Tone]
	if tone == "" {
		tone = "unknown"
	}
	return verdictView{v, tone}
}
