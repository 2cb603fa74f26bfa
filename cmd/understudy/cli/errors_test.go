package cli

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
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

// TestDescribePrintsAViolationOnce: a description that the message has is not repeated, and others are listed.
func TestDescribePrintsAViolationOnce(t *testing.T) {
	failed := func(message string, descriptions ...string) error {
		failure := &errdetails.PreconditionFailure{}
		for _, d := range descriptions {
			failure.Violations = append(failure.Violations, &errdetails.PreconditionFailure_Violation{Subject: "it", Description: d})
		}
		st, err := status.New(codes.FailedPrecondition, message).WithDetails(failure)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for want, err := range map[string]error{
		"Resource 'it': Its preview was never started.":   failed("Resource 'it': Its preview was never started.", "Its preview was never started."),
		"It is not ready.\n  it: have 0\n  it: need more": failed("It is not ready.", "have 0", "need more"),
	} {
		if got := Describe(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
