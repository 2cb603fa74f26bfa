package cli

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestTooLargeToSend: what gRPC refuses by itself names the limit on policies.
func TestTooLargeToSend(t *testing.T) {
	c := &Client{addr: "127.0.0.1:1"}
	err := c.unanswered(status.Error(codes.ResourceExhausted, "trying to send message larger than max (70000000 vs. 68157440)"))
	if err == nil || !strings.Contains(err.Error(), "--max-policy-size") || errors.Unwrap(err) != nil {
		t.Errorf("%v", err)
	}
}

// TestCertificateFilesAreBounded: a flag that names certificates.
func TestCertificateFilesAreBounded(t *testing.T) {
	if _, err := (Transport{CACert: "/dev/zero"}).Config(); err == nil || !strings.Contains(err.Error(), "--ca-cert: /dev/zero has more than 1 MiB") {
		t.Errorf("--ca-cert: %v", err)
	}
}
