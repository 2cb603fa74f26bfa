package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/audit"
	"understudy/admin/content"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// No sidecar applies an acceptance, so these methods answer with the resource and not with an
// operation.

// GetAcceptance implements AIP-131.
func (s *Server) GetAcceptance(ctx context.Context, r *adminpb.GetAcceptanceRequest) (*adminpb.Acceptance, error) {
	name, err := acceptanceKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	stored, err := s.readJudged(ctx, name.parent())
	if err != nil {
		return nil, err
	}
	if stored.damage != nil {
		return nil, stored.damage
	}
	if a := stored.find(name); a != nil {
		return a, nil
	}
	return nil, apierror.NotFound(name)
}

// ListAcceptances implements AIP-132.
func (s *Server) ListAcceptances(
	ctx context.Context, r *adminpb.ListAcceptancesRequest,
) (*adminpb.ListAcceptancesResponse, error) {
	parent, err := experimentKind.parseParent("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, r.GetOrderBy(), acceptanceSchema, r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := s.requireParent(ctx, parent); err != nil {
		return nil, err
	}
	query := Query{Collection: parent.parent().acceptances(), ID: strings.TrimSuffix(parent.ID(), Wildcard)}
	records, err := s.ListSummaries(ctx, query)
	if err != nil {
		return nil, err
	}
	var all []*adminpb.Acceptance
	var unreachable []string
	for _, record := range records {
		experiment := record.Key.Policy().In("experiments").Key(record.Key.ID())
		stored, err := s.readJudged(ctx, experiment)
		if apierror.IsNotFound(err) {
			continue // it was deleted since it was listed
		}
		if err != nil {
			return nil, err
		}
		if stored.damage != nil {
			unreachable = append(unreachable, string(experiment))
		}
		all = append(all, stored.list...)
	}
	out, next, err := page(l, all)
	return &adminpb.ListAcceptancesResponse{Acceptances: out, NextPageToken: next, Unreachable: unreachable}, err
}

// readJudged reads the acceptances of an experiment with what has become of them. If its
// evidence cannot be read, that is not known.
func (s *Server) readJudged(ctx context.Context, experiment Key) (storedAcceptances, error) {
	stored, config, err := s.readReported(ctx, experiment)
	if err != nil || len(stored.acceptances.list) == 0 {
		return stored.acceptances, err
	}
	in, err := s.reportInput(ctx, stored)
	if err != nil {
		for _, a := range stored.acceptances.list {
			a.State, a.StateReason = adminpb.Acceptance_STATE_UNSPECIFIED, "the evidence of the experiment cannot be read"
		}
		return stored.acceptances, ctx.Err()
	}
	_, err = s.judge(ctx, stored, in, config, nil)
	return stored.acceptances, err
}

// CreateAcceptance implements AIP-133, and AIP-155 for who repeats a call.
func (s *Server) CreateAcceptance(ctx context.Context, r *adminpb.CreateAcceptanceRequest) (*adminpb.Acceptance, error) {
	experiment, err := experimentKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := checkAcceptanceRequest(r); err != nil {
		return nil, err
	}
	id := cmp.Or(r.GetAcceptanceId(), "a-"+NewID()[:8])
	name := experiment.In("acceptances").Key(id)
	audit.FromContext(ctx).Resource(string(name))
	var made *adminpb.Acceptance
	workOut := func(ctx context.Context) (txn Txn, err error) {
		made, txn, err = s.acceptanceCreation(ctx, name, r)
		return txn, err
	}
	if r.GetValidateOnly() {
		_, err := workOut(ctx)
		return made, err
	}
	if err := s.Commit(ctx, name, workOut); err != nil {
		return nil, err
	}
	audit.FromContext(ctx).Resource(made.Name)
	audit.FromContext(ctx).Changed(audit.Etags{After: made.Etag})
	audit.FromContext(ctx).Fields(acceptedFields(made))
	return made, nil
}

// acceptedFields are the fields of a new acceptance as the audit log has them.
func acceptedFields(made *adminpb.Acceptance) []audit.FieldChange {
	if id := made.GetItemId(); id != "" {
		return []audit.FieldChange{{Field: "item_id", After: id}}
	}
	return []audit.FieldChange{
		{Field: "group_id", After: made.GetGroupId()}, {Field: "max_request_count", After: strconv.FormatInt(made.MaxRequestCount, 10)},
		{Field: "max_caller_count", After: strconv.FormatInt(made.MaxCallerCount, 10)},
	}
}

// checkAcceptanceRequest checks what does not depend on what is stored.
func checkAcceptanceRequest(r *adminpb.CreateAcceptanceRequest) error {
	if r.GetAcceptance() == nil {
		return apierror.Required("acceptance", "It says which group or item is accepted, and why.")
	}
	if id := r.GetAcceptanceId(); id != "" {
		if err := checkID("acceptance_id", id); err != nil {
			return err
		}
	}
	if id := r.GetRequestId(); id != "" && !requestID.MatchString(id) {
		return apierror.Invalid(apierror.ReasonInvalidID, "request_id", "It is a random UUID (version 4).")
	}
	return content.CheckAcceptance("acceptance", r.GetAcceptance())
}

// acceptanceCreation works out the creation of an acceptance. It depends on the experiment, so
// that it cannot slip past its deletion or change, and on all other acceptances of it. A call
// that was made before has no writes.
func (s *Server) acceptanceCreation(
	ctx context.Context, name Key, r *adminpb.CreateAcceptanceRequest,
) (*adminpb.Acceptance, Txn, error) {
	stored, guard, err := s.readGuarded(ctx, name.parent(), s.Get)
	if err != nil {
		return nil, Txn{}, err
	}
	if err := stored.readable(); err != nil {
		return nil, Txn{}, err
	}
	uid := acceptanceUID(ctx, stored.experiment.GetUid(), r.GetRequestId())
	for _, before := range stored.acceptances.list {
		if before.Uid == uid {
			return before, Txn{}, nil
		}
	}
	if stored.acceptances.find(name) != nil {
		return nil, Txn{}, apierror.AlreadyExists(name, apierror.ReasonAlreadyExists, "Delete it, or choose another ID.")
	}
	config, err := s.AsConfig(ctx, configFor(name), guard)
	if err != nil {
		return nil, Txn{}, err
	}
	made, callers, err := s.newAcceptance(ctx, stored, config, r.GetAcceptance())
	if err != nil {
		return nil, Txn{}, err
	}
	made.Name = string(name)
	list, err := stored.with(made)
	if err != nil || r.GetValidateOnly() {
		return made, Txn{}, err
	}
	made.Uid, made.CreateTime = uid, timestamppb.New(s.now())
	if made.Etag, err = content.AcceptanceEtag(made); err != nil {
		return nil, Txn{}, err
	}
	writes, err := stored.acceptedWrites(stored.acceptances.knowing(made, callers), list)
	conditions := []Condition{stored.parent.Unchanged(), stored.unchanged(), stored.acceptances.unchanged(), config.Unchanged()}
	return made, Txn{Conditions: conditions, Writes: writes}, err
}

// acceptanceUID returns the UID of an acceptance: for the request ID of a caller always the same.
func acceptanceUID(ctx context.Context, experiment, requestID string) string {
	if requestID == "" {
		return NewID()
	}
	of := experiment + "\n" + access.FromContext(ctx).Member + "\n" + strings.ToLower(requestID)
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(of), 4).String()
}

// newAcceptance returns what of a given acceptance becomes the resource, of a group or an item that
// the present report has, and the stored set of the group's callers.
func (s *Server) newAcceptance(
	ctx context.Context, stored storedExperiment, config StoredConfig, given *adminpb.Acceptance,
) (*adminpb.Acceptance, []byte, error) {
	if err := matchEtag(stored.name, given.GetExperimentEtag(), stored.experiment.Etag); err != nil {
		return nil, nil, err
	}
	if etag, current := given.GetPolicyEtag(), stored.parent.Policy.Etag; etag != "" && etag != current {
		return nil, nil, apierror.EtagMismatch(stored.name.Policy(), apierror.ReasonParentEtagMismatch, apierror.Versions{Given: etag, Current: current})
	}
	if err := checkAccepter(ctx, stored, config); err != nil {
		return nil, nil, err
	}
	in, err := s.reportInput(ctx, stored)
	if err != nil {
		return nil, nil, err
	}
	a := content.OfAcceptance(given)
	a.PolicyEtag = stored.parent.Policy.Etag
	if a.RulesEtag, err = content.RulesEtag(stored.parent.Policy); err != nil {
		return nil, nil, err
	}
	by := access.FromContext(ctx)
	a.Creator, a.CreatorDisplay = by.Member, by.Display
	a.State = adminpb.Acceptance_IN_FORCE
	if a.GetItemId() != "" {
		return a, nil, s.acceptItem(ctx, stored, in, a)
	}
	callers, err := acceptGroup(stored, in, a)
	return a, callers, err
}

// acceptGroup writes into an acceptance what it is about, and returns the stored set of the group's
// callers.
func acceptGroup(stored storedExperiment, in report.Input, a *adminpb.Acceptance) ([]byte, error) {
	group := report.GroupOf(report.Build(in), a.GetGroupId())
	if group == nil {
		return nil, apierror.Precondition(stored.name, apierror.ReasonGroupNotFound,
			"Its report has no difference with the group_id '"+a.GetGroupId()+"'. Get the report again.")
	}
	a.Difference = proto.CloneOf(group)
	a.Difference.Examples, a.Difference.Principal, a.Difference.Acceptance = nil, "", ""
	seen := report.SeenOf(in)[a.GetGroupId()]
	callers, n := seen.Callers()
	return callers, setLimits(a, seen.RequestCount, n)
}

// acceptItem writes into an acceptance what it is about: what no request has shown.
func (s *Server) acceptItem(ctx context.Context, stored storedExperiment, in report.Input, a *adminpb.Acceptance) (err error) {
	if in.Change, err = s.itemsOf(ctx, stored); err != nil {
		return s.storeFailed(ctx, "comparing "+string(stored.name)+" with its policy", err)
	}
	item := report.ItemOf(report.Build(in), in.Change, a.GetItemId())
	switch {
	case in.Change == nil:
		return apierror.Precondition(stored.name, apierror.ReasonItemNotFound,
			"It cannot be found out in what it differs from the live policy, so it has no items.")
	case item == nil:
		return apierror.Precondition(stored.name, apierror.ReasonItemNotFound,
			"It does not differ from the live policy in an item with the item_id '"+a.GetItemId()+"'. Get the report again.")
	case report.SeenWhole(item):
		return apierror.Precondition(stored.name, apierror.ReasonItemSeen,
			"Requests have shown the item '"+a.GetItemId()+"', so there is nothing to accept of it. Accept the groups of differences that it makes.")
	}
	a.Item = item
	return nil
}

// checkAccepter checks that anyone who accepts could commit, where that has to be another one than
// who has set the policy of the experiment.
func checkAccepter(ctx context.Context, stored storedExperiment, config StoredConfig) error {
	if !config.Requirements().GetRequireDifferentCommitter() {
		return nil
	}
	fourEyes := &adminpb.CommitRequirements{RequireDifferentCommitter: true}
	judged := &adminpb.Report{}
	report.SetResults(judged, fourEyes, nil, committer(ctx, stored))
	if unmet := report.Unmet(judged); len(unmet) > 0 {
		return apierror.RequirementsNotMet(stored.name, unmet)
	}
	return nil
}

// setLimits writes into an acceptance how many requests and callers its group has now, and the
// limits that the caller has left to the default: twice as many requests, and no other caller. A
// limit that is exceeded already is refused.
func setLimits(a *adminpb.Acceptance, requests, callers int64) error {
	a.RequestCount, a.CallerCount = requests, callers
	a.MaxRequestCount = cmp.Or(a.MaxRequestCount, 2*requests)
	a.MaxCallerCount = cmp.Or(a.MaxCallerCount, callers)
	if a.MaxRequestCount < requests {
		return exceededAlready("acceptance.max_request_count", report.Number(requests)+" requests")
	}
	if a.MaxCallerCount < callers {
		return exceededAlready("acceptance.max_caller_count", report.Number(callers)+" callers")
	}
	return nil
}

// exceededAlready is INVALID_ARGUMENT of a limit that is less than what there is.
func exceededAlready(field apierror.Field, have string) error {
	return apierror.Invalid(apierror.ReasonInvalidField, field, "The group has "+have+" already. Accept at least as many.")
}

// DeleteAcceptance implements AIP-135. Anyone who may accept may take back what another one has
// accepted: that can only make a commit harder.
func (s *Server) DeleteAcceptance(ctx context.Context, r *adminpb.DeleteAcceptanceRequest) (*emptypb.Empty, error) {
	name, err := acceptanceKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	var deleted *adminpb.Acceptance
	workOut := func(ctx context.Context) (txn Txn, err error) {
		deleted, txn, err = s.acceptanceDeletion(ctx, name, r)
		return txn, err
	}
	if r.GetValidateOnly() {
		_, err := workOut(ctx)
		return &emptypb.Empty{}, err
	}
	if err := s.Commit(ctx, name, workOut); err != nil {
		return nil, err
	}
	audit.FromContext(ctx).Changed(audit.Etags{Before: deleted.GetEtag()})
	for _, field := range []audit.FieldChange{
		{Field: "group_id", Before: deleted.GetGroupId()}, {Field: "item_id", Before: deleted.GetItemId()},
	} {
		if field.Before != "" {
			audit.FromContext(ctx).Fields([]audit.FieldChange{field})
		}
	}
	return &emptypb.Empty{}, nil
}

// acceptanceDeletion works out the deletion of an acceptance. One that is not there, and may be
// missing, has no writes.
func (s *Server) acceptanceDeletion(
	ctx context.Context, name Key, r *adminpb.DeleteAcceptanceRequest,
) (*adminpb.Acceptance, Txn, error) {
	experiment, err := s.readExperiment(ctx, name.parent())
	if err != nil {
		return nil, Txn{}, err
	}
	stored, err := s.readAcceptances(ctx, name.parent())
	if err != nil {
		return nil, Txn{}, err
	}
	if stored.damage != nil {
		return nil, Txn{}, stored.damage
	}
	a := stored.find(name)
	if a == nil {
		if r.GetAllowMissing() {
			return nil, Txn{}, nil
		}
		return nil, Txn{}, apierror.NotFound(name)
	}
	if err := matchEtag(name, r.GetEtag(), a.Etag); err != nil {
		return nil, Txn{}, err
	}
	var rest []*adminpb.Acceptance
	for _, one := range stored.list {
		if one != a {
			rest = append(rest, one)
		}
	}
	writes, err := experiment.acceptedWrites(stored, rest)
	return a, Txn{Conditions: []Condition{experiment.unchanged(), stored.unchanged()}, Writes: writes}, err
}

// acceptanceSchema is what a filter over acceptances may name.
var acceptanceSchema = aip.Schema{
	Message: (&adminpb.Acceptance{}).ProtoReflect().Descriptor(), Search: []string{"name", "reason"},
}
