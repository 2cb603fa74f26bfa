package admin_test

import (
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminpb "understudy/admin/v1"
)

// TestUpdateThatUndeletes: it is one change, so that no sidecar decides by what was deleted.
func TestUpdateThatUndeletes(t *testing.T) {
	onEachStore(t, "p-undelete", func(l *library) {
		ctx := l.Context()
		first := l.live(l.policy)
		_, err := l.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: l.policy})
		l.check(err)
		deleted, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.policy})
		l.check(err)
		update := func(r *adminpb.UpdatePolicyRequest, etag string) error {
			r.Policy = contentOf("changed")
			r.Policy.Name, r.Policy.Etag = l.policy, etag
			_, err := l.UpdatePolicy(l.as("token:dan"), r)
			return err
		}
		for name, c := range map[string]struct {
			request *adminpb.UpdatePolicyRequest
			etag    string
			want    codes.Code
		}{
			"without undelete":   {&adminpb.UpdatePolicyRequest{}, "", codes.FailedPrecondition},
			"with allow_missing": {&adminpb.UpdatePolicyRequest{AllowMissing: true}, "", codes.FailedPrecondition},
			"of another version": {&adminpb.UpdatePolicyRequest{Undelete: true}, `W/"other"`, codes.Aborted},
			"validated only":     {&adminpb.UpdatePolicyRequest{Undelete: true, ValidateOnly: true}, deleted.Etag, codes.OK},
		} {
			if err := update(c.request, c.etag); status.Code(err) != c.want {
				l.Errorf("%s: got %v, want %s", name, err, c.want)
			}
		}
		before := l.operations()
		l.check(update(&adminpb.UpdatePolicyRequest{Undelete: true, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}}}, deleted.Etag))
		restored, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.policy})
		l.check(err)
		if restored.DeleteTime != nil || restored.PurgeTime != nil || restored.DisplayName != "changed" || restored.Modules["changed.rego"] != "" {
			l.Errorf("it is %v", restored)
		}
		if n := l.operations() - before; n != 1 {
			l.Errorf("it is %d changes", n)
		}
		if _, err := l.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: first.Name}); err != nil {
			l.Errorf("an earlier revision: %v", err)
		}
	})
}

// operations returns how many changes of the location there were.
func (l *library) operations() int {
	l.Helper()
	list, err := l.ListOperations(l.Context(), &longrunningpb.ListOperationsRequest{Name: l.location, PageSize: 1000})
	l.check(err)
	return len(list.Operations)
}

// TestUndeletingUpdateWithoutAChange restores the policy as it was.
func TestUndeletingUpdateWithoutAChange(t *testing.T) {
	onEachStore(t, "p-undelete-same", func(l *library) {
		ctx := l.Context()
		live, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.policy})
		l.check(err)
		_, err = l.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: l.policy})
		l.check(err)
		_, err = l.UpdatePolicy(ctx, &adminpb.UpdatePolicyRequest{Policy: live, Undelete: true})
		l.check(err)
		again, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.policy})
		l.check(err)
		if again.DeleteTime != nil || again.Etag != live.Etag {
			l.Errorf("it is %v", again)
		}
	})
}
