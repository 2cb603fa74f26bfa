package extservice

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestRefusedAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.255.255.254": true, "0.0.0.0": true, "0.1.2.3": true, "169.254.1.1": true,
		"169.254.169.254": true, "224.0.0.251": true, "239.1.1.1": true, "240.0.0.1": true, "255.255.255.255": true,
		"100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"::": true, "::1": true, "fe80::1": true, "fe80::1%eth0": true, "ff02::1": true, "fd00:ec2::254": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "::127.0.0.1": true, "::ffff:0:127.0.0.1": true,
		"64:ff9b::169.254.169.254": true, "64:ff9b:1::127.0.0.1": true, "2002:7f00:1::": true, "2002:a9fe:a9fe::1": true,
		"2001:0:1:2:3:4:80ff:fffe": true,

		"10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "192.0.2.1": false, "100.64.0.1": false,
		"2001:db8::1": false, "fd00::1": false, "::ffff:10.0.0.1": false, "64:ff9b::10.0.0.1": false, "2002:a00:1::": false,
	} {
		if got := !(Config{}).mayCall("a.example", netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: refused is %v, want %v", address, got, want)
		}
	}
}

func TestAllowedAddresses(t *testing.T) {
	c := Config{
		AllowHosts:     []string{"near"},
		AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.1.0.0/16"), netip.MustParsePrefix("fe80::/64")},
	}
	for _, row := range []struct {
		host, address string
		want          bool
	}{
		{"near", "127.0.0.1", true}, {"near", "::1", true}, {"near", "169.254.1.1", true}, {"near", "10.0.0.1", true},
		{"near", "169.254.169.254", false}, {"near", "fd00:ec2::254", false}, {"near", "224.0.0.1", false}, {"near", "0.0.0.0", false},
		{"near.example", "127.0.0.1", false}, {"far", "127.1.2.3", true}, {"far", "::ffff:127.1.2.3", true},
		{"far", "127.2.0.1", false}, {"far", "fe80::1%eth0", true}, {"far", "fe80:1::1", false},
	} {
		if got := c.mayCall(row.host, netip.MustParseAddr(row.address)); got != row.want {
			t.Errorf("%s at %s: got %v, want %v", row.host, row.address, got, row.want)
		}
	}
}

func TestBulkhead(t *testing.T) {
	b := newBulkhead(8)
	live, shadow, other := share{"a:80", false}, share{"a:80", true}, share{"b:80", false}
	enter := func(p share, n int) (entered int) {
		for range n {
			if b.enter(p) {
				entered++
			}
		}
		return entered
	}
	if n, m, o := enter(shadow, 20), enter(live, 20), enter(other, 1); n != 2 || m != 8 || o != 1 {
		t.Errorf("%d, %d and %d entered; want 2, 8 and 1", n, m, o)
	}
	b.leave(live)
	if n := enter(live, 20); n != 1 {
		t.Errorf("%d entered, want 1", n)
	}
	for range 8 {
		b.leave(live)
	}
	b.leave(shadow)
	b.leave(shadow)
	b.leave(other)
	if len(b.taken) != 0 {
		t.Errorf("%v is left behind", b.taken)
	}
}

// TestNoProxy: one would connect in our place, to addresses that are refused.
func TestNoProxy(t *testing.T) {
	transport := newHTTPClient(Config{}.withDefaults()).Transport.(*http.Transport)
	if transport.Proxy != nil || transport.DialTLSContext != nil {
		t.Error("there is another way to connect than by the address that is judged")
	}
}

// FuzzEndpoint: whose token is sent, whose share is taken, and whether it is in the clear
// are those of the host and the scheme that are called.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		"https://usage.example.com/v1/check", "http://a:80/v1/check", "http://[::1]:8080/base", "https://[fe80::1%25eth0]", "HTTPS://A.",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		given, err := url.Parse(text)
		if err != nil {
			return
		}
		to := newEndpoint(given)
		sent, err := url.Parse(to.url)
		if err != nil {
			return // it is never sent: see Client.send
		}
		if hostName(sent.Hostname()) != to.host || to.clear != (sent.Scheme == "http") {
			t.Errorf("%q is called at %q, as %+v", text, to.url, to)
		}
	})
}

// FuzzDenial: whatever a service sends with a 403, what is shown is one bounded line of
// its message, or nothing.
func FuzzDenial(f *testing.F) {
	for _, seed := range []string{
		`{"message": "m"}`, `{"message": "a\u0000\n\u202eb\ud800"}`, `["message"]`, `{"message": ["m"]}`, `{"message": null}`,
		`{"message": "m"} {"message": "n"}`, `{"message": "m", "message": "n"}`, `{"MESSAGE": "m"}`, `"message"`, `{`, ``, `null`,
		`{"message": "` + strings.Repeat("ä", 1000) + `"}`, "{\"message\": \"\xff\"}", strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		message, ok := parseDenial(body)
		if ok == (message == "") {
			t.Fatalf("the message is %q, %v", message, ok)
		}
		if !ok {
			return
		}
		var object struct {
			Message any `json:"message"`
		}
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatalf("a message of what is no object: %q", message)
		}
		if len(message) > 3*maxMessage || !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl) {
			t.Errorf("the message is %q", message)
		}
	})
}
