package reservation_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/authz/reservation"
)

// clock is one that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// TestWrongTokenIsLogged: Blazar's log does not say why it denies every lease, so ours
// has to, once a minute, and without the token.
func TestWrongTokenIsLogged(t *testing.T) {
	c := &clock{now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	p := serve(t, deciderFunc(yes), func(config *reservation.Config) { config.Now = c.Now })
	ask := func(token string, times int) {
		for range times {
			if message, err := (blazar{p.url + "/v1/", token}).ask("check-create", fixture(t, "blazar-check-create")); err != nil || message != generic {
				t.Fatalf("got %q, %v", message, err)
			}
		}
	}
	ask("not-the-right-one", 3)
	c.add(time.Minute - time.Second)
	ask("", 1)
	c.add(time.Second)
	ask("", 1)
	var warnings []string
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "external_service_token") && strings.Contains(line, "--reservation-token-file") {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "given=true") || !strings.Contains(warnings[0], "calls=1") ||
		!strings.Contains(warnings[1], "given=false") || !strings.Contains(warnings[1], "calls=4") {
		t.Errorf("the warnings are %q", warnings)
	}
	if strings.Contains(p.log.String(), "not-the-right-one") || strings.Contains(p.log.String(), token) {
		t.Errorf("a token is in the log: %s", p.log.String())
	}
}
