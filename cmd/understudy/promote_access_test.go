package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stageTeam is a server with three stages and the tokens of who works on them.
type stageTeam struct {
	*testing.T
	*running
	// files :: name → file of its token.
	files map[string]string
}

// The stages.
const (
	dev     = "projects/p1/locations/dev"
	staging = "projects/p1/locations/staging"
	prod    = "projects/p1/locations/prod"
)

// newStageTeam starts a server for root, who owns everything, ann, an editor of dev alone, and
// rel, a committer of all stages. From dev policies go to staging.
func newStageTeam(t *testing.T) *stageTeam {
	s := &stageTeam{T: t, files: make(map[string]string)}
	folder := t.TempDir()
	var hashes strings.Builder
	for _, name := range []string{"root", "ann", "rel"} {
		token := name + "-0123456789012345678901234567890123456789"
		digest := sha256.Sum256([]byte(token))
		fmt.Fprintf(&hashes, "%s %s\n", name, hex.EncodeToString(digest[:]))
		s.files[name] = s.write(filepath.Join(folder, name), token+"\n")
	}
	tokens := s.write(filepath.Join(folder, "tokens"), hashes.String())
	s.running = startServer(t, func(c *config) { c.adminTokenFiles, c.owners = []string{tokens}, []string{"token:root"} })
	s.bind(dev, `{"role":"roles/understudy.editor","members":["token:ann"]},{"role":"roles/understudy.committer","members":["token:rel"]}`)
	s.bind(staging, `{"role":"roles/understudy.committer","members":["token:rel"]}`)
	s.bind(prod, `{"role":"roles/understudy.committer","members":["token:rel"]}`)
	s.must("root", "next", "staging", "--location", dev)
	return s
}

func (s *stageTeam) write(path, text string) string {
	s.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// send makes a call of HTTP as somebody.
func (s *stageTeam) send(who, method, path, body string) (int, map[string]any) {
	s.Helper()
	token, err := os.ReadFile(s.files[who])
	if err != nil {
		s.Fatal(err)
	}
	a := &auditing{T: s.T, running: s.running, token: strings.TrimSpace(string(token))}
	return a.send(method, path, body)
}

// bind sets the bindings of a location.
func (s *stageTeam) bind(location, bindings string) {
	s.Helper()
	if code, answer := s.send("root", "POST", "/v1/"+location+":setIamPolicy", `{"policy":{"bindings":[`+bindings+`]}}`); code != http.StatusOK {
		s.Fatalf("the bindings of %s: %d %v", location, code, answer)
	}
}

// run runs a command as somebody.
func (s *stageTeam) run(who string, args ...string) (int, string) {
	s.Helper()
	var out strings.Builder
	code := run(s.Context(), append(args, "--admin", s.bound["admin"], "--token-file", s.files[who]), strings.NewReader(""), &out, &out)
	return code, out.String()
}

// must is run that has to go well.
func (s *stageTeam) must(who string, args ...string) {
	s.Helper()
	if code, out := s.run(who, args...); code != 0 {
		s.Fatalf("%s: %v ended with %d:\n%s", who, args, code, out)
	}
}

// untouched checks that prod has no policy.
func (s *stageTeam) untouched(after string) {
	s.Helper()
	if _, answer := s.send("root", "GET", "/v1/"+prod+"/policies", ""); answer["policies"] != nil {
		s.Fatalf("after %s prod has %v", after, answer)
	}
}

// TestAnEditorOfOneStageDoesNotReachAnother: who may edit dev alone cannot send those to prod
// who promote from dev, by no way to set where dev leads, nor can he put other content into a
// promotion that was looked at.
func TestAnEditorOfOneStageDoesNotReachAnother(t *testing.T) {
	t.Parallel()
	s := newStageTeam(t)
	file := s.write(filepath.Join(t.TempDir(), "config.yaml"), "nextLocation: "+prod+"\n")
	for _, way := range [][]string{
		{"next", "prod", "--location", dev}, {"apply", dev + "/config", "-f", file}, {"apply", dev + "/config", "-f", file, "--validate-only"},
	} {
		if code, out := s.run("ann", way...); code != 1 || !strings.Contains(out, "policies.promote") || !strings.Contains(out, prod) {
			t.Errorf("%v ended with %d:\n%s\nwant that promote on prod is missing", way, code, out)
		}
	}
	for _, way := range [][3]string{
		{"PATCH", "/v1/" + dev + "/config", `{"nextLocation":"` + prod + `"}`}, {"PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"prod"}`},
	} {
		if code, answer := s.send("ann", way[0], way[1], way[2]); code != http.StatusForbidden {
			t.Errorf("%v answered %d: %v, want 403", way, code, answer)
		}
	}
	// The command of every day leads where it did before, and says so.
	s.must("ann", "apply", "web", "-f", "../../deploy/examples/policy.yaml", "--location", dev)
	code, out := s.run("rel", "promote", "web", "--location", dev, "--yes")
	if code != 0 || !strings.Contains(out, dev+" → "+staging+"\n") {
		t.Errorf("the promotion ended with %d:\n%s", code, out)
	}
	s.untouched("a promotion to staging")

	// What rel has looked at is what is promoted, or nothing is.
	s.must("root", "next", "prod", "--location", dev)
	_, seen := s.send("rel", "GET", "/v1/"+dev+"/policies/web", "")
	s.must("ann", "apply", "web", "-f", "../../deploy/examples/allow.yaml", "--location", dev)
	request, err := json.Marshal(map[string]any{"destination": prod, "policies": []any{map[string]any{"revision": seen["revision"]}}})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := s.send("rel", "POST", "/v1/"+dev+"/policies:promote", string(request)); code != http.StatusConflict || !strings.Contains(fmt.Sprint(answer), "REVISION_NOT_LIVE") {
		t.Errorf("a promotion of what is not live any more answered %d: %v", code, answer)
	}
	if code, answer := s.send("ann", "POST", "/v1/"+dev+"/policies:promote", string(request)); code != http.StatusForbidden {
		t.Errorf("ann's promotion answered %d: %v, want 403", code, answer)
	}
	s.untouched("promotions that were refused")

	// What prod requires of commits, and of anyone who commits, holds for it.
	s.must("root", "promote", "--location", dev, "--yes")
	s.must("ann", "apply", "web", "-f", "../../deploy/examples/policy.yaml", "--location", dev)
	for _, c := range [][2]string{
		{`{"minRequestCount":1}`, "requests>=1"}, {`{"requireDifferentCommitter":true}`, "token:root has set its next_location"},
	} {
		requirement, says := c[0], c[1]
		if code, answer := s.send("root", "PATCH", "/v1/"+prod+"/config?updateMask=commitRequirements", `{"commitRequirements":`+requirement+`}`); code != http.StatusOK {
			t.Fatalf("%d: %v", code, answer)
		}
		if code, out := s.run("root", "promote", "--location", dev, "--yes"); code != 1 || !strings.Contains(out, says) {
			t.Errorf("with %s a promotion ended with %d:\n%s\nwant that it names %s", requirement, code, out, says)
		}
		if code, answer := s.send("root", "POST", "/policy_groups/dev/promote", "{}"); code != http.StatusConflict || !strings.Contains(fmt.Sprint(answer), says) {
			t.Errorf("with %s a promotion of RFC-042 answered %d: %v\nwant 409 that names %s", requirement, code, answer, says)
		}
	}
	s.must("rel", "promote", "--location", dev, "--yes") // who has neither set where dev leads nor written what is there
}
