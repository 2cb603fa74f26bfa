package report

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

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

// Collect merges what was settled, which is a marshalled Evidence or empty, with what nodes
// published. Evidence of another content of the experiment is left out. The error is that of
// a record that cannot be decoded, and names it.
func Collect(experimentEtag string, settled []byte, published []Published) (Collected, error) {
	c := Collected{reporting: make(map[string]bool)}
	if len(settled) > 0 {
		if _, err := c.add(experimentEtag, settled); err != nil {
			return c, fmt.Errorf("decoding the settled evidence: %w", err)
		}
	}
	for _, p := range published {
		e, err := c.add(experimentEtag, p.Value)
		if err != nil {
			return c, fmt.Errorf("decoding what %s published: %w", p.Node, err)
		}
		// Two intervals are one publication that did not come.
		if e != nil && !e.GetFinal() && p.Age < 2*e.GetPublishInterval().AsDuration() {
			c.reporting[p.Node] = true
		}
	}
	return c, nil
}

// add merges one record and returns it; nil if it is of another content. Records are decoded
// one at a time: a location may have thousands.
func (c *Collected) add(experimentEtag string, value []byte) (*evidencepb.Evidence, error) {
	e := &evidencepb.Evidence{}
	if err := proto.Unmarshal(value, e); err != nil {
		return nil, err
	}
	if e.GetExperimentEtag() != experimentEtag {
		return nil, nil
	}
	if c.Evidence == nil {
		c.Evidence = &evidencepb.Evidence{Experiment: e.Experiment, Uid: e.Uid, ExperimentEtag: e.ExperimentEtag}
	}
	latest, longest := c.Evidence.PublishTime, c.Evidence.PublishInterval
	merge(c.Evidence, e)
	if t := e.GetPublishTime(); t.AsTime().After(latest.AsTime()) {
		latest = t
	}
	if d := e.GetPublishInterval(); d.AsDuration() > longest.AsDuration() {
		longest = d
	}
	c.Evidence.PublishTime, c.Evidence.PublishInterval = latest, longest
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
