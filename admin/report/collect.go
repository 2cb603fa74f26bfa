package report

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"time"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// Published is what a node last published of an experiment.
type Published struct {
	// Node is the resource name of the node.
	Node string
	// Tally is unique, and Serial grows with each publication of it.
	Tally  string
	Serial int64
	// Value is a marshalled Evidence.
	Value []byte
	// Age is the time since it was published, both ends by one clock.
	Age time.Duration
}

// Collected is all evidence of one content of an experiment.
type Collected struct {
	// Evidence is the sum; nil if there is none.
	Evidence *evidencepb.Evidence
	// reporting are the nodes whose last publication is younger than two of its intervals, or
	// than authz.NodeLifetime if that is longer.
	reporting map[string]bool
}

// Collect merges what was settled, which is a marshalled Evidence or empty, with what nodes
// published. Evidence of another content of the experiment is left out. The error is that of
// a record that cannot be decoded, and names it.
//
// A location may have thousands of records: they are decoded by all processors, and only sums
// of them are kept.
func Collect(experimentEtag string, settled []byte, published []Published) (Collected, error) {
	parts := make([]collector, runtime.GOMAXPROCS(0))
	var collecting sync.WaitGroup
	for i := range parts {
		parts[i] = collector{experimentEtag: experimentEtag, total: evidence.NewTotal()}
		collecting.Go(func() {
			for j := i; j < len(published) && parts[i].err == nil; j += len(parts) {
				parts[i].collect(published[j])
			}
		})
	}
	c := Collected{reporting: make(map[string]bool)}
	all := collector{experimentEtag: experimentEtag, total: evidence.NewTotal()}
	if len(settled) > 0 {
		if _, err := all.add(settled); err != nil {
			all.err = fmt.Errorf("decoding the settled evidence: %w", err)
		}
	}
	collecting.Wait()
	for _, part := range parts {
		all.total.AddTotal(part.total)
		all.err = cmp.Or(all.err, part.err)
		for _, node := range part.reporting {
			c.reporting[node] = true
		}
	}
	if all.err == nil {
		c.Evidence = all.total.Evidence()
	}
	return c, all.err
}

// collector decodes and adds up some of the records.
type collector struct {
	experimentEtag string
	total          *evidence.Total
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

// add adds one record and returns it without its pairs; nil if it is of another content.
func (c *collector) add(value []byte) (*evidencepb.Evidence, error) {
	e, err := c.total.AddRecord(value, c.experimentEtag)
	if err != nil || e.GetExperimentEtag() != c.experimentEtag {
		return nil, err
	}
	return e, nil
}

// Nodes returns the nodes of these names, each with whether it reports.
func (c Collected) Nodes(names []string) []Node {
	var out []Node
	for _, name := range names {
		out = append(out, Node{Name: name, Reports: c.reporting[name]})
	}
	return out
}
