package report

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// Published is what a node last published of an experiment.
type Published struct {
	// Node is the resource name of the node.
	Node string
	// Value is a marshalled Evidence.
	Value []byte
	// Age is the time since it was published, both ends by one clock.
	Age time.Duration
}

// Content is one content of an experiment.
type Content struct {
	// UID is that of the experiment, and Etag that of the content.
	UID, Etag string
}

// Collected is all evidence of one content of an experiment.
type Collected struct {
	// Evidence is the sum; nil if there is none.
	Evidence *evidencepb.Evidence
	// reporting are the nodes whose last publication is younger than two of its intervals, or
	// than authz.NodeLifetime if that is longer.
	reporting map[string]bool
}

// Collect merges what was compacted, which is a marshalled Evidence or empty, with what nodes
// published. Evidence of another content of the experiment is left out. The error is that of
// a record that cannot be decoded, and names it.
//
// A location may have thousands of records: they are decoded by all processors, and only sums
// of them are kept.
func Collect(of Content, compacted []byte, published []Published) (Collected, error) {
	parts := make([]*collector, runtime.GOMAXPROCS(0))
	var collecting sync.WaitGroup
	for i := range parts {
		parts[i] = &collector{sum: evidence.NewSum(evidence.Content{UID: of.UID, Etag: of.Etag}, nil)}
		collecting.Go(func() {
			for j := i; j < len(published) && parts[i].err == nil; j += len(parts) {
				parts[i].collect(published[j])
			}
		})
	}
	collecting.Wait()
	all := parts[0]
	if len(compacted) > 0 {
		if _, err := all.add(compacted); err != nil {
			all.err = cmp.Or(all.err, fmt.Errorf("decoding the compacted evidence: %w", err))
		}
	}
	for _, part := range parts[1:] {
		all.join(part)
	}
	if all.err != nil || !all.any {
		return Collected{}, all.err
	}
	c := Collected{Evidence: all.sum.Evidence(), reporting: make(map[string]bool)}
	for _, node := range all.reporting {
		c.reporting[node] = true
	}
	return c, nil
}

// collector decodes and adds up some of the records.
type collector struct {
	sum *evidence.Sum
	// any says that something was added.
	any bool
	// reporting are the nodes whose publication is recent.
	reporting []string
	err       error
}

// collect adds what a node published.
func (c *collector) collect(p Published) {
	e, err := c.add(p.Value)
	if err != nil {
		c.err = fmt.Errorf("decoding what %s published: %w", p.Node, err)
		return
	}
	// Two intervals are one publication that did not come. As long as a node counts as live
	// in any case, a publication may be late: the node is busy.
	if e != nil && !e.GetFinal() && p.Age < max(2*e.GetPublishInterval().AsDuration(), authz.NodeLifetime) {
		c.reporting = append(c.reporting, p.Node)
	}
}

// add adds one record and returns it; nil if it is of another content.
func (c *collector) add(value []byte) (*evidencepb.Evidence, error) {
	e := &evidencepb.Evidence{}
	if err := proto.Unmarshal(value, e); err != nil {
		return nil, err
	}
	if !c.sum.Add(e) {
		return nil, nil
	}
	c.any = true
	return e, nil
}

// join adds what another one has collected.
func (c *collector) join(other *collector) {
	c.sum.AddSum(other.sum)
	c.any = c.any || other.any
	c.reporting = append(c.reporting, other.reporting...)
	c.err = cmp.Or(c.err, other.err)
}

// Nodes returns the nodes of these names, each with whether it reports.
func (c Collected) Nodes(names []string) []Node {
	var out []Node
	for _, name := range names {
		out = append(out, Node{Name: name, Reports: c.reporting[name]})
	}
	return out
}
