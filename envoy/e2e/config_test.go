//go:build realenvoy

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// node is an object of a configuration.
type node = map[string]any

// config is a bootstrap as it is shipped. Addresses, ports and paths of files can be
// put in the place of the shipped ones; what else a test changes is a variant, and is
// named as one.
type config struct{ tree node }

// shipped reads a file of the folder above.
func shipped(t *testing.T, file string) *config {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	return parseConfig(t, content)
}

// alternative reads a file for another deployment, "tls" or "socket", as it instructs its
// reader to change it.
func alternative(t *testing.T, file, mark string) *config {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte("#"+mark+"| "), nil)
	return parseConfig(t, regexp.MustCompile("(?m)^.* # not with a "+mark+"\n").ReplaceAll(content, nil))
}

func parseConfig(t *testing.T, content []byte) *config {
	t.Helper()
	c := &config{}
	if err := yaml.Unmarshal(content, &c.tree); err != nil {
		t.Fatal(err)
	}
	// Anchors become objects of their own, so that a change of one is not one of both.
	c.tree = copied(t, c.tree)
	return c
}

// copied is a deep copy.
func copied(t *testing.T, n node) node {
	t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var out node
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at goes down by keys, and by indices of lists; nil if there is nothing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(node)
			value = object[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

// object is at for an object, which has to be there.
func object(t *testing.T, value any, path ...any) node {
	t.Helper()
	n, ok := at(value, path...).(node)
	if !ok {
		t.Fatalf("there is no object at %v", path)
	}
	return n
}

// every visits all objects.
func every(value any, visit func(node)) {
	switch value := value.(type) {
	case node:
		visit(value)
		for _, v := range value {
			every(v, visit)
		}
	case []any:
		for _, v := range value {
			every(v, visit)
		}
	}
}

// move puts addresses in the place of a name and port of the file; several become
// endpoints next to each other, as a name that resolves to them.
func (c *config) move(t *testing.T, name string, port int, to ...string) *config {
	t.Helper()
	moved := 0
	every(c.tree, func(n node) {
		if list, ok := n["lb_endpoints"].([]any); ok && len(to) > 1 {
			n["lb_endpoints"] = repeated(t, list, name, port, len(to))
		}
	})
	every(c.tree, func(n node) {
		address, ok := n["socket_address"].(node)
		if !ok || address["address"] != name || address["port_value"] != float64(port) {
			return
		}
		host, number := split(t, to[moved%len(to)])
		n["socket_address"] = node{"address": host, "port_value": number}
		moved++
	})
	if moved == 0 {
		t.Fatalf("the file has no address %s:%d", name, port)
	}
	return c
}

// repeated makes several of an endpoint.
func repeated(t *testing.T, endpoints []any, name string, port, times int) (out []any) {
	for _, e := range endpoints {
		address := at(e, "endpoint", "address", "socket_address")
		out = append(out, e)
		if at(address, "address") != name || at(address, "port_value") != float64(port) {
			continue
		}
		for range times - 1 {
			out = append(out, copied(t, e.(node)))
		}
	}
	return out
}

// local moves what every file has: the listeners and the admin page, to ports that are
// free, and the upstream. It makes the file's timeouts ten times as long.
func (c *config) local(t *testing.T, upstream string) *config {
	t.Helper()
	every(c.tree, func(n node) {
		address, ok := n["socket_address"].(node)
		if ok && (address["address"] == "0.0.0.0" || address["port_value"] == float64(9901)) {
			n["socket_address"] = node{"address": "127.0.0.1", "port_value": 0}
		}
	})
	return c.unhurried(10).move(t, "upstream", 8080, upstream)
}

// unhurried makes every timeout so many times as long: of checks, of their tries (max_interval),
// of connections and of health checks. A machine that is busy with other tests can be away for
// longer than the shipped ones, whatever stands behind Envoy.
func (c *config) unhurried(factor float64) *config {
	every(c.tree, func(n node) {
		for _, name := range []string{"timeout", "max_interval", "connect_timeout"} {
			text, _ := n[name].(string)
			if d, err := time.ParseDuration(text); err == nil {
				n[name] = fmt.Sprintf("%gs", d.Seconds()*factor)
			}
		}
	})
	return c
}

// files puts a folder in the place of the one that the file names.
func (c *config) files(t *testing.T, folder, to string) *config {
	t.Helper()
	text, err := json.Marshal(c.tree)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(`"`+folder)) {
		t.Fatalf("the file names nothing in %s", folder)
	}
	c.tree = nil
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"`+folder, `"`+to)), &c.tree); err != nil {
		t.Fatal(err)
	}
	return c
}

// listener returns the listener of a name.
func (c *config) listener(t *testing.T, name string) node {
	t.Helper()
	for _, l := range at(c.tree, "static_resources", "listeners").([]any) {
		if at(l, "name") == name {
			return l.(node)
		}
	}
	t.Fatalf("there is no listener %s", name)
	return nil
}

// variant adds a copy of the shipped listener in which something is otherwise.
func (c *config) variant(t *testing.T, name string, change func(listener node)) {
	t.Helper()
	l := copied(t, c.listener(t, "ingress"))
	l["name"] = name
	change(l)
	c.add(t, "listeners", l)
}

// add adds a static resource.
func (c *config) add(t *testing.T, kind string, resource node) {
	t.Helper()
	resources := object(t, c.tree, "static_resources")
	list, _ := resources[kind].([]any)
	resources[kind] = append(list, resource)
}

// manager returns the HTTP connection manager of a listener.
func manager(t *testing.T, listener node) node {
	t.Helper()
	return object(t, listener, "filter_chains", 0, "filters", 0, "typed_config")
}

// extAuthz returns the ext_authz filter of a listener, the only one.
func extAuthz(t *testing.T, listener node) node {
	t.Helper()
	for _, f := range manager(t, listener)["http_filters"].([]any) {
		if at(f, "name") == "envoy.filters.http.ext_authz" {
			return object(t, f, "typed_config")
		}
	}
	t.Fatal("there is no ext_authz filter")
	return nil
}

// before adds an HTTP filter before all others.
func before(t *testing.T, listener node, filter node) {
	t.Helper()
	m := manager(t, listener)
	m["http_filters"] = append([]any{filter}, m["http_filters"].([]any)...)
}
