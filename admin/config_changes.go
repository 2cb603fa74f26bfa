package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/admin/audit"
	adminpb "understudy/admin/v1"
)

// ConfigRemoval is the write that removes a configuration, with all that it required and where it
// led to.
func ConfigRemoval(ctx context.Context, c StoredConfig) Write {
	audit.FromContext(ctx).Fields(configChanges(c.config, &adminpb.Config{}))
	return Delete{c.Name}
}

// configChanges are the fields in which two configurations differ, as the audit log has them:
// their names, and of those that say who may make what live their values, too.
func configChanges(before, after *adminpb.Config) (out []audit.FieldChange) {
	if was, is := before.GetNextLocation(), after.GetNextLocation(); was != is {
		out = append(out, audit.FieldChange{Field: "next_location", Before: was, After: is})
	}
	was, is := before.GetCommitRequirements().ProtoReflect(), after.GetCommitRequirements().ProtoReflect()
	fields := is.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if was.Has(field) == is.Has(field) && was.Get(field).Equal(is.Get(field)) {
			continue
		}
		change := audit.FieldChange{Field: "commit_requirements." + string(field.Name())}
		if field.Kind() == protoreflect.BoolKind {
			change.Before, change.After = fmt.Sprint(was.Get(field).Bool()), fmt.Sprint(is.Get(field).Bool())
		}
		out = append(out, change)
	}
	return out
}
