package report

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

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

// Collected is all evidence of one content of an experiment.
type Collected struct {
	// Evidence is the sum; nil if there is none.
	Evidence *evidencepb.Evidence
	// reporting are the nodes whose last publication is recent.
	reporting map[string]bool
}

// batchSize is how many bytes of records are decoded before they are merged: a location may
// have thousands, and each merge goes through the sum again.
const batchSize = 2 << 20

// Collect merges what was settled, which is a marshalled Evidence or empty, with what nodes
// published. Evidence of another content of the experiment is left out. The error is that of
// a record that cannot be decoded, and names it.
func Collect(experimentEtag string, settled []byte, published []Published) (Collected, error) {
	c := collector{experimentEtag: experimentEtag, Collected: Collected{reporting: make(map[string]bool)}}
	if len(settled) > 0 {
		if _, err := c.add(settled); err != nil {
			return c.Collected, fmt.Errorf("decoding the settled evidence: %w", err)
		}
	}
	for _, p := range published {
		e, err := c.add(p.Value)
		if err != nil {
			return c.Collected, fmt.Errorf("decoding what %s published: %w", p.Node, err)
		}
		// Two intervals are one publication that did not come.
		if e != nil && !e.GetFinal() && p.Age < 2*e.GetPublishInterval().AsDuration() {
			c.reporting[p.Node] = true
		}
	}
	c.merge()
	return c.Collected, nil
}

// collector decodes and merges records.
type collector struct {
	Collected
	experimentEtag string
	// batch are records that are not merged yet, and size is their size.
	batch []*evidencepb.Evidence
	size  int
}

// add decodes one record and returns it; nil if it is of another content.
func (c *collector) add(value []byte) (*evidencepb.Evidence, error) {
	e := &evidencepb.Evidence{}
	if err := proto.Unmarshal(value, e); err != nil {
		return nil, err
	}
	if e.GetExperimentEtag() != c.experimentEtag {
		return nil, nil
	}
	c.batch = append(c.batch, e)
	if c.size += len(value); c.size >= batchSize {
		c.merge()
	}
	return e, nil
}

// merge merges the batch.
func (c *collector) merge() {
	if len(c.batch) == 0 {
		return
	}
	if c.Evidence == nil {
		c.Evidence = &evidencepb.Evidence{}
	}
	evidence.Merge(c.Evidence, c.batch...)
	c.batch, c.size = nil, 0
}

// Nodes returns the nodes of these names, each with whether it reports.
func (c Collected) Nodes(names []string) []Node {
	var out []Node
	for _, name := range names {
		out = append(out, Node{Name: name, Reports: c.reporting[name]})
	}
	return out
}
