package command

import (
	"testing"

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
