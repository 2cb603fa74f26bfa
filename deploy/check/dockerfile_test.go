package check_test

import (
	goversion "go/version"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stage is a part of a Dockerfile, from one FROM to the next.
type stage struct {
	image        string
	instructions []string
}

// stages splits the Dockerfile. It knows what that file uses: one instruction a
// line, and comments on lines of their own.
func stages(t *testing.T) []stage {
	t.Helper()
	content, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var all []stage
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		switch image, begins := strings.CutPrefix(line, "FROM "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case begins:
			// --platform says where it is built, not with what.
			words := slices.DeleteFunc(strings.Fields(image), func(w string) bool { return strings.HasPrefix(w, "--") })
			all = append(all, stage{image: words[0]})
		case len(all) == 0:
			t.Fatalf("%q stands before the first FROM", line)
		default:
			last := &all[len(all)-1]
			last.instructions = append(last.instructions, line)
		}
	}
	if len(all) != 2 {
		t.Fatalf("there are %d stages; want one that builds and one that runs", len(all))
	}
	return all
}

func TestImageRunsAsNobody(t *testing.T) {
	last := stages(t)[1]
	if !regexp.MustCompile(`/distroless/static-debian\d+:nonroot$`).MatchString(last.image) {
		t.Errorf("the image stands on %q; want distroless, static, nonroot", last.image)
	}
	want := []string{
		"COPY --from=build /understudy /understudy",
		"USER 65532:65532",
		"EXPOSE 9191 8181 8282",
		`ENTRYPOINT ["/understudy"]`,
		`CMD ["serve"]`,
	}
	if diff := cmp.Diff(want, last.instructions); diff != "" {
		t.Errorf("instructions (-want +got):\n%s", diff)
	}
}

func TestImageIsBuiltStaticallyByAGoOfTheModule(t *testing.T) {
	build := stages(t)[0]
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(module)
	if version == nil {
		t.Fatal("go.mod has no version of Go")
	}
	// The image's Go may not fetch another one, so an older one would fail. A later patch has what is
	// mended in the standard library.
	with := regexp.MustCompile(`^golang:(\S+?)-`).FindStringSubmatch(build.image)
	least := "go" + string(version[1])
	if with == nil || goversion.Lang("go"+with[1]) != goversion.Lang(least) || goversion.Compare("go"+with[1], least) < 0 {
		t.Errorf("the image is built by %q; want the minor version of Go that go.mod has, %s or a later patch", build.image, least)
	}
	compiles := slices.IndexFunc(build.instructions, func(i string) bool { return strings.Contains(i, "go build") })
	if compiles < 0 {
		t.Fatal("nothing is built")
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-X main.version=${VERSION}", "./cmd/understudy"} {
		if !strings.Contains(build.instructions[compiles], want) {
			t.Errorf("the build has no %s", want)
		}
	}
	root, err := os.ReadFile("../cmd/understudy/version.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(root), "\nvar version =") {
		t.Error("main.version, which the build sets, does not exist")
	}
}
