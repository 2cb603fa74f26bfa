package check_test

import (
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// collector is the part of the collector's configuration that the file uses. Its
// own packages are too many to ask.
type collector struct {
	Receivers struct {
		OTLP struct {
			Protocols struct {
				GRPC struct{ Endpoint string }
				HTTP struct{ Endpoint string }
			}
		} `yaml:"otlp"`
	}
	Processors struct {
		MemoryLimiter struct {
			CheckInterval string `yaml:"check_interval"`
			LimitMiB      int    `yaml:"limit_mib"`
		} `yaml:"memory_limiter"`
	}
	Exporters struct {
		Debug struct{ Verbosity string }
	}
	Service struct {
		Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
	}
}

func readCollector(t *testing.T) (config collector) {
	t.Helper()
	content, err := os.ReadFile("otel-collector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestCollectorPipelines(t *testing.T) {
	config := readCollector(t)
	for _, signal := range []string{"logs", "metrics", "traces"} {
		p, ok := config.Service.Pipelines[signal]
		if !ok || !slices.Equal(p.Receivers, []string{"otlp"}) || !slices.Equal(p.Exporters, []string{"debug"}) {
			t.Errorf("the pipeline for %s is %+v; want one from otlp to debug", signal, p)
		}
		// Elsewhere it would refuse too late.
		if len(p.Processors) == 0 || p.Processors[0] != "memory_limiter" {
			t.Errorf("the pipeline for %s does not begin with the memory_limiter", signal)
		}
	}
	if len(config.Service.Pipelines) != 3 {
		t.Errorf("there are %d pipelines; want 3", len(config.Service.Pipelines))
	}
	if v := config.Exporters.Debug.Verbosity; !slices.Contains([]string{"basic", "normal", "detailed"}, v) {
		t.Errorf("the verbosity is %q", v)
	}
	if l := config.Processors.MemoryLimiter; l.CheckInterval == "" || l.LimitMiB == 0 {
		t.Errorf("the memory_limiter is %+v; the collector refuses to start without both", l)
	}
}

// TestCollectorListensWhereUnderstudyExports compares it with the compose file.
func TestCollectorListensWhereUnderstudyExports(t *testing.T) {
	environment := compose(t).Services["understudy"].Environment
	endpoint, err := url.Parse(*environment["OTEL_EXPORTER_OTLP_ENDPOINT"])
	if err != nil {
		t.Fatal(err)
	}
	if protocol := *environment["OTEL_EXPORTER_OTLP_PROTOCOL"]; protocol != "grpc" {
		t.Fatalf("the protocol is %q; want grpc", protocol)
	}
	listens := readCollector(t).Receivers.OTLP.Protocols.GRPC.Endpoint
	if _, port, err := net.SplitHostPort(listens); err != nil || port != endpoint.Port() {
		t.Errorf("the collector listens on %q; Understudy exports to %s", listens, endpoint)
	}
}
