package main

import (
	"encoding/xml"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxPicture is the largest picture of a document, in bytes: a page loads it at once.
const maxPicture = 200_000

// compareRecording holds the recording of README.md to what the program prints today.
func compareRecording(s *session) {
	s.Helper()
	recorded := shownLines(s.T, "demo.svg")
	// The title of the window and the command that was typed come first.
	if len(recorded) < 3 || recorded[0] != "make demo" || recorded[1] != "$ make demo" {
		s.Fatalf("demo.svg does not show make demo: `make recording` makes it anew")
	}
	printed := parseLines(strings.Join(s.mustRun("bin/understudy demo --fast"), "\n"))
	var now []string
	for _, l := range printed {
		if text := strings.Join(strings.Fields(plain(l.text())), " "); text != "" {
			now = append(now, text)
		}
	}
	for i, text := range recorded {
		recorded[i] = strings.Join(strings.Fields(plain(text)), " ")
	}
	if diff := cmp.Diff(steady(recorded[2:]), steady(now)); diff != "" {
		s.Errorf("demo.svg shows what the demo does not print (-) or lacks something (+); `make recording` makes it anew\n%s", diff)
	}
}

// steady leaves out of reports what the rehearsal process finds out in its own time, such
// as why and which items were seen: how much of that is known when the report is read,
// and so how many lines there is room for, is another matter in each run. The script of the
// demo (cmd/understudy/scripts/testdata/demo.txtar) holds what has to be there.
func steady(lines []string) (kept []string) {
	inside := false
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "REQUESTS KIND PATH"):
			inside = true
		case strings.HasPrefix(l, "Unknown "):
			inside = false
		}
		if !inside && !ifThereIsRoom.MatchString(l) {
			kept = append(kept, hours.ReplaceAllString(l, "hours of the week"))
		}
	}
	return kept
}

// hours matches the hours of the week that a report has seen: another run, another hour.
var hours = regexp.MustCompile(`hours of the week seen: [0-9]+ of 168,( [A-Z][a-z]+day| [0-9:]+| to| UTC|,)+`)

// ifThereIsRoom matches the requirements that are met: a report that needs its lines for
// more important things counts them.
var ifThereIsRoom = regexp.MustCompile(`^(met .*|and [0-9]+ more)$`)

// shownText is one piece of text of a recording: a line has several, one for each style.
type shownText struct {
	Y      string  `xml:"y,attr"`
	X      float64 `xml:"x,attr"`
	Length float64 `xml:"textLength,attr"`
	Text   string  `xml:",chardata"`
}

// shownLines returns the lines of text of a recording, in their order. Pieces that touch each
// other have no blank between them.
func shownLines(t *testing.T, name string) (lines []string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var last shownText
	d := xml.NewDecoder(strings.NewReader(string(content)))
	for {
		token, err := d.Token()
		if token == nil {
			return lines
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		element, is := token.(xml.StartElement)
		if !is || element.Name.Local != "text" {
			continue
		}
		var now shownText
		if err := d.DecodeElement(&now, &element); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch {
		case now.Y == "" || now.Y != last.Y || len(lines) < 2:
			lines = append(lines, now.Text)
		case now.X-(last.X+last.Length) < advance/2:
			lines[len(lines)-1] += now.Text
		default:
			lines[len(lines)-1] += " " + now.Text
		}
		last = now
	}
}

// TestPictures: the pictures are well-formed, light, and stand still for those who want
// that.
func TestPictures(t *testing.T) {
	for _, name := range []string{"check.svg", "demo.svg"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(content, new(struct{})); err != nil {
			t.Errorf("%s is not XML: %v", name, err)
		}
		if len(content) > maxPicture {
			t.Errorf("%s has %d bytes, more than %d", name, len(content), maxPicture)
		}
		if strings.Contains(string(content), "animation:") && !strings.Contains(string(content), "prefers-reduced-motion") {
			t.Errorf("%s moves for everybody", name)
		}
		if strings.Contains(string(content), "href") || strings.Contains(string(content), "url(http") {
			t.Errorf("%s refers to something outside of it, which pages do not load for a picture", name)
		}
	}
}

func TestParseLine(t *testing.T) {
	got := parseLine("a \x1b[1mbold\x1b[0m\x1b[31mred\x1b[0m z")
	want := line{{"a ", ""}, {"bold", "bold"}, {"red", "red"}, {" z", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTimeline(t *testing.T) {
	x := line{{"x", ""}}
	moments, total := timeline([]line{x, x, nil, x, x, x, x, nil, x})
	if len(moments) != 9 || moments[8].lines != 9 {
		t.Fatalf("got %v, want a moment for each line", moments)
	}
	short, long := moments[3].at-moments[2].at, moments[8].at-moments[7].at
	if want := perLine + 3*perRead; short != want {
		t.Errorf("a short chapter stays for %v, want %v", short, want)
	}
	if want := perLine + 5*perRead + perChapter; long != want {
		t.Errorf("a long chapter stays for %v, want %v", long, want)
	}
	if want := moments[8].at + perLine + atTheEnd; total != want {
		t.Errorf("all takes %v, want %v", total, want)
	}
}
