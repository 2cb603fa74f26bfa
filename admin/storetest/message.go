package storetest

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

const (
	active    = adminpb.PolicyPreviewMetadata_ACTIVE
	suspended = adminpb.PolicyPreviewMetadata_SUSPENDED
)

// policy returns a stored policy. Its display name says which version of it this is.
func policy(text string) []byte { return marshal(&adminpb.Policy{DisplayName: text}) }

// numbered is a policy whose display name is a number, for tests that count.
func numbered(n int) []byte { return policy(fmt.Sprint(n)) }

// deletedPolicy returns a stored policy that is soft-deleted: followers get it as one that
// is gone.
func deletedPolicy() []byte {
	return marshal(&adminpb.Policy{DisplayName: "deleted", DeleteTime: timestamppb.Now()})
}

// experiment returns a stored experiment whose policy has this display name. Without a state
// it was never started, so it has no preview metadata at all.
func experiment(text string, state adminpb.PolicyPreviewMetadata_State) []byte {
	e := &adminpb.PolicyExperiment{Policy: &adminpb.Policy{DisplayName: text}}
	if state != adminpb.PolicyPreviewMetadata_STATE_UNDEFINED {
		e.PreviewMetadata = &adminpb.PolicyPreviewMetadata{State: state}
	}
	return marshal(e)
}

// named returns a write that puts a policy or an experiment under its name; others are
// returned as they are. A record whose message has another name counts as undecodable for
// followers, so without this every test would have to write each name twice.
func named(w admin.Write) admin.Write {
	p, isPut := w.(admin.Put)
	if !isPut || len(p.Value) == 0 {
		return w
	}
	segments := strings.Split(string(p.Key), "/")
	switch segments[len(segments)-2] {
	case "policies":
		m := &adminpb.Policy{}
		if proto.Unmarshal(p.Value, m) == nil {
			m.Name = string(p.Key)
			p.Value = marshal(m)
		}
	case "experiments":
		m := &adminpb.PolicyExperiment{}
		if proto.Unmarshal(p.Value, m) == nil {
			m.Name = string(p.Key)
			p.Value = marshal(m)
		}
	}
	return p
}

// policyNumber is the display name of a stored policy; the error of one that cannot be
// decoded, which equals no name.
func policyNumber(value []byte) string {
	p := &adminpb.Policy{}
	if err := proto.Unmarshal(value, p); err != nil {
		return err.Error()
	}
	return p.DisplayName
}

// experimentNumber is the display name of the policy in a stored experiment.
func experimentNumber(value []byte) string {
	e := &adminpb.PolicyExperiment{}
	if err := proto.Unmarshal(value, e); err != nil {
		return err.Error()
	}
	return e.GetPolicy().GetDisplayName()
}

// marshal cannot fail: these messages are valid.
func marshal(m proto.Message) []byte {
	value, err := proto.Marshal(m)
	if err != nil {
		return []byte(err.Error())
	}
	return value
}
