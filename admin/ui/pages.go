package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/report"
	"understudy/admin/report/verdict"
)

// assetsPath is where the files of assets are. They need no authentication: they are in
// every copy of the program.
const assetsPath = Root + "assets/"

//go:embed assets pages
var files embed.FS

// assets :: name of a file → its address, which changes with its content.
type assets map[string]string

// pages are the templates and the files that go with them.
type pages struct {
	templates *template.Template
	assets    assets
	// content :: address → what is there.
	content map[string]asset
}

// asset is one file.
type asset struct {
	kind  string
	bytes []byte
}

// loadPages parses the templates and names the assets.
func loadPages() (*pages, error) {
	p := &pages{assets: make(assets), content: make(map[string]asset)}
	var err error
	if p.templates, err = template.New("").Funcs(functions).ParseFS(files, "pages/*.html"); err != nil {
		return nil, fmt.Errorf("parsing the pages: %w", err)
	}
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		content, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, err
		}
		sum, ext := sha256.Sum256(content), path.Ext(e.Name())
		at := assetsPath + strings.TrimSuffix(e.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		p.assets[strings.NewReplacer("-", "", ".", "").Replace(e.Name())] = at
		p.content[at] = asset{mime.TypeByExtension(ext), content}
	}
	return p, nil
}

// serveAsset sends a file. What is at its address never changes.
func (p *pages) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, found := p.content[r.URL.Path]
	if !found || !isGet(r) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.bytes))
}

// functions are what templates call.
var functions = template.FuncMap{
	"address": address, "id": id, "shortEtag": shortEtag, "number": report.Number, "callers": report.Callers, "countedCallers": report.CountedCallers, "share": verdict.Share, "counted": verdict.Counted,
	"period": verdict.Period, "kindName": verdict.NameOf, "when": when, "day": day, "stamp": stamp,
	"maker": maker, "dict": dict, "join": strings.Join, "upper": upperFirst,
	"plus": func(a, b int64) int64 { return a + b }, "tone": toneOf,
}

// maker is who made a resource, with the name for people, if there is one.
func maker(of interface {
	GetCreator() string
	GetCreatorDisplay() string
}) string {
	return access.Principal{Member: of.GetCreator(), Display: of.GetCreatorDisplay()}.Named()
}

// toneOf is that of a policy which every sidecar that has it enforces.
func toneOf(e enforced) string {
	if e.Of == 0 && !e.Unknown {
		return "unknown"
	}
	return "good"
}

// when writes a time for people. All are UTC: who compares a page with a log needs one zone.
func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return day(t) + " UTC"
}

// day is that without the zone, below a heading that has it.
func day(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format("2006-01-02 15:04") }

// stamp writes a time for programs (the attribute datetime).
func stamp(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339) }

// upperFirst begins a sentence.
func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// dict gives a template more than one value: names and values in turn.
func dict(pairs ...any) (map[string]any, error) {
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}
