package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// NewHealth is the health check of a container: its image has no shell and no curl.
//
// It asks /readyz and not /livez: an orchestrator that restarts what is not ready yet would do so for
// ever while the store is away.
func NewHealth() *cobra.Command {
	var addr, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a server on this machine whether it is ready, for a container's health check",
		Long: `Ask a server whether it is ready, as /readyz says: exit code 0 if it is, else 1 and why.
What is wrong with policies of a server that is ready is printed too. A container's health check is

  HEALTHCHECK CMD ["/understudy", "health"]`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !command.OneOf(output, "text", "json") {
				return command.Usage(errors.New("--output: it is text or json"))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return checkHealth(ctx, addr, healthOutput{cmd.OutOrStdout(), output == "json"})
		},
	}
	cmd.Flags().StringVar(&addr, "addr", command.EnvOr("HEALTH_ADDR", "127.0.0.1:8282"), "the server's health port, --health-addr (UNDERSTUDY_HEALTH_ADDR)")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "how long to wait for the answer")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: the answer of /readyz")
	command.CompleteOutput(cmd, "text", "json")
	return cmd
}

// readyAnswer is what this command reads of the answer of /readyz.
type readyAnswer struct {
	// Ready is what the status code says too.
	Ready bool `json:"ready"`
	// Reason is why it is not ready.
	Reason string `json:"reason"`
	// MissingPolicies are the first of MissingCount that the store has lost.
	MissingPolicies []string `json:"missingPolicies"`
	// MissingCount is all of them.
	MissingCount int `json:"missingPolicyCount"`
	// Help says what to do about those that are missing.
	Help string `json:"help"`
	// AbsentHelp is about a --policy that is not there.
	AbsentHelp string `json:"absentPolicyHelp"`
	// NotApplied are the first of NotAppliedCount that could not be applied.
	NotApplied []string `json:"notApplied"`
	// NotAppliedCount is all of them.
	NotAppliedCount int `json:"notAppliedCount"`
}

// notes are what is wrong with a server that is ready all the same.
//
// They are for a person who looks at the log of the health check; the exit code is 0.
func (r readyAnswer) notes() (out []string) {
	if r.MissingCount > 0 {
		out = append(out, fmt.Sprintf("missing: %s. %s", firstOf(r.MissingPolicies, r.MissingCount), r.Help))
	}
	if r.NotAppliedCount > 0 {
		out = append(out, fmt.Sprintf("not applied: %s. The last good version of a policy decides; without one it denies.", firstOf(r.NotApplied, r.NotAppliedCount)))
	}
	if r.AbsentHelp != "" {
		out = append(out, r.AbsentHelp)
	}
	return out
}

// firstOf names some of so many.
//
// The server sends the first ones alone: a list of thousands is no line of a log.
func firstOf(names []string, total int) string {
	text := strings.Join(names, ", ")
	if more := total - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// HealthRequest returns a request to a path of a server's health port, whose address is the
// value of a flag. The error is one of that flag.
//
// The port has neither TLS nor authentication.
func HealthRequest(ctx context.Context, addr command.FlagValue, path string) (*http.Request, error) {
	host, port, err := net.SplitHostPort(addr.Value)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--%s: it is host:port, such as 127.0.0.1:8282: %w", addr.Flag, err))
	}
	// A server listens on all addresses as :8282 or 0.0.0.0:8282, which nobody can call.
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--%s: %w", addr.Flag, err))
	}
	return request, nil
}

// healthOutput is where the answer is written, and whether as JSON.
type healthOutput struct {
	to   io.Writer
	json bool
}

// maxReadiness bounds the answer of /readyz, in bytes.
const maxReadiness = 64 << 10

// checkHealth asks the health port once. An error means that a container is to be taken
// for unhealthy: not ready, not there, or something else that listens there.
//
// It asks once and repeats nothing: a container's health check has an interval of its own.
func checkHealth(ctx context.Context, addr string, out healthOutput) error {
	request, err := HealthRequest(ctx, command.FlagValue{Flag: "addr", Value: addr}, "/readyz")
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("not healthy: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var r readyAnswer
	var answer json.RawMessage
	if err := json.NewDecoder(io.LimitReader(response.Body, maxReadiness)).Decode(&answer); err != nil || json.Unmarshal(answer, &r) != nil {
		return fmt.Errorf("what answers at %s has no /readyz of understudy: it says %s", addr, response.Status)
	}
	if out.json {
		if err := terminal.WriteValue(out.to, answer); err != nil {
			return err
		}
	}
	if response.StatusCode != http.StatusOK || !r.Ready {
		return fmt.Errorf("not ready: %s", r.Reason)
	}
	if out.json {
		return nil
	}
	_, err = fmt.Fprintln(out.to, strings.Join(append([]string{"ready"}, r.notes()...), "\n"))
	return err
}
