package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestLikeFlag(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"policy", "preview-console", "preview-log", "authz-addr", "admin-addr", "default-decision", "store"} {
		flags.String(name, "", "")
	}
	for name, want := range map[string]string{
		"polcy": "policy", "preview-consol": "preview-console", "authz-adr": "authz-addr",
		"default_decision": "default-decision", "x": "", "zzzzzz": "",
	} {
		if got := likeFlag(flags, name); got != want {
			t.Errorf("--%s is like --%s, want %q", name, got, want)
		}
	}
}

func TestLikeCommands(t *testing.T) {
	root := &cobra.Command{Use: "understudy"}
	for _, name := range []string{"apply", "get", "replay", "report", "revision", "revisions", "put", "list"} {
		root.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	root.AddCommand(&cobra.Command{Use: "delete", SuggestFor: []string{"rm"}, Run: func(*cobra.Command, []string) {}})
	root.AddCommand(&cobra.Command{Use: "hidden", Hidden: true, Run: func(*cobra.Command, []string) {}})
	for word, want := range map[string]string{
		"aply": "apply", "APPLY": "apply", "lst": "list", "revison": "revision", "re": "replay report revision revisions", "hiden": "", "x": "", "rm": "delete", "": "apply get replay report revision revisions put list delete",
	} {
		got := likeCommands(root, word)
		if want := strings.Fields(want); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%q is like %q, want %q", word, got, want)
		}
	}
}
