package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestCommands follows every document from its beginning to its end: each command of it
// is run by a shell in a copy of the repository, and prints what the document shows.
// The commands of notRun are checked in another way.
func TestCommands(t *testing.T) {
	folder := copied(t)
	newSession(t, folder).mustRun("make build")
	for _, d := range documents(t) {
		t.Run(d.path, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, folder)
			s.moveApart()
			if prepare, found := prepared[d.path]; found {
				prepare(s)
			}
			for _, b := range d.blocks() {
				s.follow(b)
			}
		})
	}
	t.Run("recording", func(t *testing.T) {
		t.Parallel()
		compareRecording(newSession(t, folder))
	})
}

// copied returns a copy of the repository, as a fresh clone has it.
func copied(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(repository, path)
		target := filepath.Join(folder, name)
		switch {
		case d.IsDir() && name != "." && apart(d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	})
	if err != nil {
		t.Fatalf("copying the repository: %v", err)
	}
	return folder
}

// follow does what a block of a document says.
func (s *session) follow(b block) {
	s.Helper()
	var err error
	switch b.language {
	case "sh", "console":
		for _, step := range b.steps() {
			s.do(step)
		}
	case "json":
		var value any
		err = json.Unmarshal([]byte(b.text), &value)
	case "yaml":
		var value any
		err = yaml.Unmarshal([]byte(b.text), &value)
	case "text", "ini", "":
	default:
		s.Errorf("line %d: a block is sh, console, json, yaml, ini, text or nothing, not %q", b.line, b.language)
	}
	if err != nil {
		s.Errorf("line %d: %v", b.line, err)
	}
}

var (
	server = regexp.MustCompile(`^(bin/)?understudy serve\b`)
	client = regexp.MustCompile(`\bunderstudy (apply|start|check|list|import|promote|restore|push)\b|localhost:8181`)
	status = regexp.MustCompile(`^([2-5][0-9][0-9])\b`)
)

// do runs one command of a document.
func (s *session) do(step step) {
	s.Helper()
	if e := exceptionFor(step.command); e != nil {
		e.check(s, step.command)
		return
	}
	if before, found := beforehand[step.command]; found {
		before(s)
	}
	switch {
	case step.command == "":
		s.expectPrinted(step)
		return
	case server.MatchString(step.command):
		s.serve(s.adapt(step.command))
		return
	case s.serving == 0 && client.MatchString(step.command):
		s.serve("understudy serve") // the reader has one from README.md
	}
	command := s.adapt(step.command)
	if m := status.FindString(step.comment); m != "" {
		command = "STATUS=" + m + "; " + command
	}
	stdout, stderr, code := s.run(command)
	if code != 0 && step.output == nil {
		s.Fatalf("line %d: %s\nended with %d:\n%s\n%s", step.line, command, code, strings.Join(stdout, "\n"), stderr)
	}
	s.compare(step, stdout, stderr)
}

// compare holds the output of a command against what is shown of it.
func (s *session) compare(step step, stdout []string, stderr string) {
	s.Helper()
	if step.output == nil {
		return
	}
	shown := trimEnd(step.output)
	if len(shown) != len(stdout) {
		s.Errorf("line %d: %s\nprints\n%s\n%s\nnot\n%s", step.line, step.command, strings.Join(stdout, "\n"), stderr, strings.Join(shown, "\n"))
		return
	}
	for i := range shown {
		if !s.values.same(shown[i], stdout[i]) {
			s.Errorf("line %d: %s\nprints\n%s\nnot\n%s", step.line, step.command, stdout[i], shown[i])
		}
	}
}

// expectPrinted waits until the server that runs has printed what a block shows.
func (s *session) expectPrinted(step step) {
	s.Helper()
	for _, shown := range trimEnd(step.output) {
		// What does not vary at the end of a line is long enough to know it by.
		parts := strings.Split(plain(shown), "…")
		longest := ""
		for _, p := range parts {
			if len(p) > len(longest) {
				longest = p
			}
		}
		if got := strings.TrimSuffix(s.await(s.log()+".out", longest), "\n"); !s.values.same(shown, got) {
			s.Errorf("line %d: the server prints\n%s\nnot\n%s", step.line, got, shown)
		}
	}
}
