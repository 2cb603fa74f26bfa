package author

import (
	"strings"
	"testing"
)

// TestSmallFilesAreBounded: the flags that name a key or a configuration.
func TestSmallFilesAreBounded(t *testing.T) {
	if _, err := (&sourceFlags{verificationKey: "/dev/zero"}).options(); err == nil || !strings.Contains(err.Error(), "--verification-key: /dev/zero has more than 1 MiB") {
		t.Errorf("--verification-key: %v", err)
	}
	if _, err := readOPAConfig("/dev/zero", nil); err == nil || !strings.Contains(err.Error(), "/dev/zero has more than 1 MiB") {
		t.Errorf("--opa-config: %v", err)
	}
}
