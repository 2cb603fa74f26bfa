package redisstore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
)

func TestOpenForms(t *testing.T) {
	for _, form := range []string{
		"redis://127.0.0.1", "redis://127.0.0.1:1/2", "redis://u:p@127.0.0.1:1/0?dial_timeout=100ms",
		"rediss://127.0.0.1:1", "unix:///nonexistent/s?db=1", "unix://u:p@/nonexistent/s",
		"redis+cluster://127.0.0.1:1?addr=127.0.0.1:2", "rediss+cluster://u:p@127.0.0.1:1",
		"redis+sentinel://127.0.0.1:1/0?master_name=m&addr=127.0.0.1:2", "rediss+sentinel://127.0.0.1:1?master_name=m",
		"redis+sentinel://127.0.0.1:1/m", "rediss+sentinel://u:p@127.0.0.1:1/m/2?addr=127.0.0.1:2",
		"redis+sentinel://127.0.0.1:1,127.0.0.1,[::1]:3/m", "redis+sentinel://u:p@a,b:2/m/1?addr=c:3",
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			open(t, form)
		})
	}
}

const password = "s3cret"

// wrongURLs are refused.
var wrongURLs = []string{
	"", "redis", "http://127.0.0.1", "redis+other://127.0.0.1", "bolt:///path", "localhost:6379",
	"redis://u:" + password + "@127.0.0.1:port", "redis://u:" + password + "@127.0.0.1/db",
	"redis://u:" + password + "@127.0.0.1/1/2", "redis://u:" + password + "/x@127.0.0.1",
	"redis://u:" + password + "#@127.0.0.1:1", "redis://u:%" + password + "@127.0.0.1",
	"redis://u:" + password + "?@127.0.0.1", "redis://127.0.0.1?" + password + "=1",
	"redis://127.0.0.1?dial_timeout=" + password, "unix://u:" + password + "@",
	"redis+cluster://u:" + password + "@127.0.0.1?addr=" + password,
	"redis+sentinel://u:" + password + "@127.0.0.1", "redis+sentinel://127.0.0.1/" + password + "?master_name=m",
	"redis+sentinel://127.0.0.1/1/" + password, "redis+sentinel://127.0.0.1/m/" + password, "redis+sentinel://127.0.0.1/m/1/" + password,
	"redis+sentinel://u:" + password + "@a:1,,b:2/m", "redis+sentinel://u:" + password + "@,b:2/m", "redis+sentinel://u:" + password + "@a:x,b:2/m",
	"redis+sentinel://u:" + password + "@a:1/m/-1", "redis+sentinel://u:" + password + "@a:0/m", "redis+sentinel:///m", "redis+sentinel://u:" + password + "@a:1,b:x/m",
	"redis+cluster://u:" + password + "@a:1/2", "redis+cluster://u:" + password + "@a:1,b:2", "redis://u:" + password + "@a:1,b:2",
	"redis://u:" + password + "@a:99999", "redis://u:" + password + "@a:1/-1",
	"re dis://" + password, "://" + password, password,
}

func TestOpenWrongURL(t *testing.T) {
	for _, wrong := range wrongURLs {
		store, err := redisstore.Open(wrong)
		if err == nil {
			t.Errorf("%s was opened", wrong)
			store.Close()
			continue
		}
		if strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error contains the password: %v", wrong, err)
		}
	}
}

// The error of a server that answers and refuses differs from that of one which cannot be reached, and does not contain the password.
func TestProbe(t *testing.T) {
	server := storetest.StartRedis(t, "--requirepass", "right")
	_, path := server.Address()
	for _, userinfo := range []string{"", ":" + password + "@", "nobody:" + password + "@"} {
		store := open(t, "unix://"+userinfo+path)
		_, load := store.Load(t.Context(), authz.Scope{Location: location})
		for doing, err := range map[string]error{"probing": store.Probe(t.Context()), "loading": load} {
			if !errors.Is(err, redisstore.ErrRefused) || strings.Contains(err.Error(), password) {
				t.Errorf("%q, %s: error %v", userinfo, doing, err)
			}
		}
	}
	right := open(t, "unix://:right@"+path)
	if err := right.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	server.Stop()
	if err := right.Probe(t.Context()); !errors.Is(err, admin.ErrUnavailable) || errors.Is(err, redisstore.ErrRefused) {
		t.Errorf("a server that is gone: %v", err)
	}
}

// FuzzOpen looks for URLs that panic or whose error contains the password.
func FuzzOpen(f *testing.F) {
	for _, wrong := range wrongURLs {
		f.Add(wrong)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Nothing is dialled: the path of the socket cannot be.
		if u, err := url.Parse(text); err == nil && u.Scheme != "unix" && u.Host != "" {
			return
		}
		store, err := redisstore.Open(text)
		if err == nil {
			store.Close()
		} else if strings.Contains(err.Error(), password) {
			t.Errorf("the error contains the password: %v", err)
		}
	})
}
