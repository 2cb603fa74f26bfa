package ui_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// void are the elements that have no end (HTML, 13.1.2); those of SVG end themselves.
var void = []string{"meta", "link", "br", "input", "col", "img", "hr"}

// checkPage holds a page against what every page is: well formed, with nothing that a strict
// policy would refuse, and made for anyone who does not see it.
func checkPage(t *testing.T, name string, a answer) {
	t.Helper()
	policy := a.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: the policy %q does not have %q", name, policy, want)
		}
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s: Cache-Control is %q, want no-store", name, got)
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Referrer-Policy") != "same-origin" || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("%s: the header is %v", name, a.header)
	}
	checkNesting(t, name, a.body)
	root, err := html.Parse(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	checkElements(t, name, root)
}

// checkNesting checks that each element that begins ends, in order.
func checkNesting(t *testing.T, name, page string) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) || len(open) > 0 {
				t.Errorf("%s: at the end %v are open, %v", name, open, z.Err())
			}
			return
		case html.StartTagToken:
			if tag := z.Token().Data; !slices.Contains(void, tag) {
				open = append(open, tag)
			}
		case html.EndTagToken:
			tag := z.Token().Data
			if len(open) == 0 || open[len(open)-1] != tag {
				t.Errorf("%s: </%s> ends %v", name, tag, open)
				return
			}
			open = open[:len(open)-1]
		}
	}
}

// checkElements checks elements and attributes.
func checkElements(t *testing.T, name string, root *html.Node) {
	t.Helper()
	ids, labels, inputs := make(map[string]bool), make(map[string]bool), []string{}
	count := make(map[string]int)
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data != "title" || n.Parent.Data == "head" { // bars of a plot have titles, too
			count[n.Data]++
		}
		at := attributes(n)
		if _, src := at["src"]; n.Data == "style" || n.Data == "marker" || n.Data == "script" && (!src || n.FirstChild != nil) {
			t.Errorf("%s: the page has an element %s %v", name, n.Data, at)
		}
		for key, value := range at {
			if key == "style" || strings.HasPrefix(key, "on") || key == "data-marker" {
				t.Errorf("%s: %s has the attribute %s", name, n.Data, key)
			}
			if (key == "href" || key == "src" || key == "action") && !strings.HasPrefix(value, "/ui/") && !strings.HasPrefix(value, "#") && !strings.HasPrefix(value, "?") {
				t.Errorf("%s: %s leads to %q", name, n.Data, value)
			}
		}
		if id := at["id"]; id != "" {
			if ids[id] {
				t.Errorf("%s: the ID %q is there twice", name, id)
			}
			ids[id] = true
		}
		checkAccess(t, name, n, at)
		if n.Data == "label" {
			labels[at["for"]] = true
		}
		if (n.Data == "input" || n.Data == "select") && at["type"] != "hidden" && at["type"] != "checkbox" {
			inputs = append(inputs, at["id"])
		}
	}
	for _, id := range inputs {
		if !labels[id] {
			t.Errorf("%s: the input %q has no label", name, id)
		}
	}
	for _, tag := range []string{"h1", "main", "title", "header", "footer"} {
		if count[tag] != 1 {
			t.Errorf("%s: there are %d elements %s, want 1", name, count[tag], tag)
		}
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if by := attributes(n)["aria-labelledby"]; by != "" && !ids[by] {
			t.Errorf("%s: %s is named by %q, which is not there", name, n.Data, by)
		}
	}
}

// checkAccess checks what an element needs for anyone who does not see it.
func checkAccess(t *testing.T, name string, n *html.Node, at map[string]string) {
	t.Helper()
	switch n.Data {
	case "html":
		if at["lang"] != "en" {
			t.Errorf("%s: the language is %q, want en", name, at["lang"])
		}
	case "table":
		if n.FirstChild == nil || !hasChild(n, "caption") {
			t.Errorf("%s: a table has no caption", name)
		}
	case "th":
		if at["scope"] == "" {
			t.Errorf("%s: a heading of a table has no scope", name)
		}
	case "svg":
		if at["aria-hidden"] != "true" && at["aria-label"] == "" {
			t.Errorf("%s: a picture is neither named nor hidden", name)
		}
	case "form":
		if at["method"] == "post" && !strings.HasPrefix(at["action"], "/ui/") {
			t.Errorf("%s: a form is posted to %q", name, at["action"])
		}
	case "section", "article", "nav":
		if at["aria-labelledby"] == "" && at["aria-label"] == "" {
			t.Errorf("%s: a %s has no name", name, n.Data)
		}
	}
}

// attributes :: name → value of an element's attributes.
func attributes(n *html.Node) map[string]string {
	out := make(map[string]string)
	for _, a := range n.Attr {
		out[a.Key] = a.Val
	}
	return out
}

// hasChild reports whether an element has a child of a kind.
func hasChild(n *html.Node, tag string) bool {
	for c := range n.ChildNodes() {
		if c.Data == tag {
			return true
		}
	}
	return false
}
