package iam_test

import (
	"strings"
	"testing"
)

// TestWhereOthersPromoteTo: an update of a configuration neither says where locations lead that its
// caller may not read, nor is refused because of them. What the caller may read is a chain.
func TestWhereOthersPromoteTo(t *testing.T) {
	s := serve(t, newStore(t), owner)
	location := func(name string) string { return s.p + "/locations/" + name }
	point := func(status int, who, from, to string) answer {
		return s.want(status, who, "PATCH", location(from)+"/config", `{"nextLocation":"`+location(to)+`"}`)
	}
	s.bind(location("l1"), "editor", "token:ed")
	s.bind(location("l2"), "committer", "token:ed")
	point(200, owner, "l2", "l3")
	point(200, owner, "l3", "l1")

	if refused := point(400, owner, "l1", "l2"); !strings.Contains(refused.body, "form a chain") {
		t.Errorf("who may read where it leads gets %s", refused.body)
	}
	point(200, "token:ed", "l1", "l2")
	point(400, "token:ed", "l1", "l1")
	// The circle holds nobody up: neither an update of another location, nor one in it.
	point(200, owner, "l9", "l1")
	clear := func() { s.must("token:ed", "PATCH", location("l1")+"/config?updateMask=nextLocation", `{}`) }
	clear()
	point(200, owner, "l2", "l4")
	point(200, owner, "l4", "l3")
	s.bind(location("l3"), "viewer", "token:ed")
	point(200, "token:ed", "l1", "l2") // l4 is between
	clear()
	s.bind(location("l4"), "viewer", "token:ed")
	point(400, "token:ed", "l1", "l2")
}
