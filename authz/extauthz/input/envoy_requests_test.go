package input_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"understudy/authz/extauthz/input"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

var update = flag.Bool("update", false, "write what came out into testdata")

// reading is how a request of Envoy's is read: a line of the table.
type reading struct {
	// how is lazy, or the reason for which the request is decoded in full.
	how string
	// again says what the decision cache makes of the same question again: hit or miss.
	again string
}

const envoyTable = "../testdata/envoy/requests.txt"

// readEnvoyTable returns the table :: setting/case → how it is read.
func readEnvoyTable(t testing.TB) map[string]reading {
	t.Helper()
	file, err := os.Open(envoyTable)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	out := make(map[string]reading)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		columns := strings.Fields(lines.Text())
		if len(columns) != 3 {
			t.Fatalf("%s: the line %q has not three columns", envoyTable, lines.Text())
		}
		out[columns[0]] = reading{columns[1], columns[2]}
	}
	return out
}

func writeEnvoyTable(t testing.TB, table map[string]reading) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(&b, "%-80s %-16s %s\n", name, table[name].how, table[name].again)
	}
	if err := os.WriteFile(envoyTable, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEnvoysRequests holds lazy decoder and full decode equal for what Envoy sends, and
// against the plain reading of the specification; and it holds which of them a request
// takes, and whether its decision is cached, against a table. With -short it reads
// some 20 requests of however many there are.
func TestEnvoysRequests(t *testing.T) {
	table, requests := readEnvoyTable(t), checktest.Envoy(t)
	for i, name := range slices.Sorted(maps.Keys(requests)) {
		if testing.Short() && i%max(1, len(requests)/20) != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			content := requests[name]
			got := reading{how: input.FallbackOf(content), again: cachedAgain(t, content)}
			if got.how == "" {
				got.how = "lazy"
			}
			if *update {
				table[name] = got
			} else if got != table[name] {
				t.Errorf("read as %v, the table has %v", got, table[name])
			}
			lazy := holdsLazy(t, content)
			if lazy != (got.how == "lazy") {
				t.Error("the lazy decoder does not read what it does not fall back for")
			}
			if lazy {
				holdsShuffled(t, rand.New(rand.NewPCG(1, 4)), content)
			}
			holdsSpecification(t, content)
		})
	}
	if *update {
		writeEnvoyTable(t, table)
	}
}

// cachedAgain asks a sidecar twice and says whether the second time was a hit.
func cachedAgain(t *testing.T, content []byte) string {
	t.Helper()
	m := servertest.Measure(t, servertest.ClaimsAndMore)
	request := &authv3.CheckRequest{}
	if err := proto.Unmarshal(content, request); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.CheckForHTTP(context.Background(), request); err != nil {
			t.Fatal(err)
		}
	}
	if m.Hits(t) == 1 {
		return "hit"
	}
	return "miss"
}

// holdsSpecification compares the full decode of a request with the plain reading of the
// specification.
func holdsSpecification(t *testing.T, content []byte) {
	t.Helper()
	request := &authv3.CheckRequest{}
	if err := proto.Unmarshal(content, request); err != nil {
		t.Fatal(err)
	}
	got, err := document(t, request)
	want, ok := checktest.Document(t, request)
	if (err == nil) != ok {
		t.Fatalf("error %v, the plain reading parses: %v", err, ok)
	}
	if err != nil {
		return
	}
	if diff := checktest.Difference(want, got); diff != "" {
		t.Errorf("(-specification +decode):\n%s", diff)
	}
}
