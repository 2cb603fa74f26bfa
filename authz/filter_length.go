package authz

import (
	"context"
	"fmt"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
	"understudy/rego"
)

// lengthFilter denies a reservation that is longer than a limit. Zero means that
// there is no limit. What is no reservation has no length, and passes.
type lengthFilter struct{ limit time.Duration }

func newLengthFilter(_ *rego.Program, r *adminpb.PolicyRule) filter {
	return lengthFilter{r.GetMaximumReservationLength().GetReservationMaxLength().AsDuration()}
}

// lengthProblems returns what is wrong with the limit.
func lengthProblems(field string, r *adminpb.PolicyRule) []Violation {
	limit := r.GetMaximumReservationLength().GetReservationMaxLength()
	if limit == nil {
		return nil
	}
	field += ".reservation_max_length"
	if err := limit.CheckValid(); err != nil {
		return []Violation{{Field: field, Description: `The limit is no duration. Write seconds, such as "86400s".`}}
	}
	if limit.GetSeconds() < 0 || limit.GetNanos() < 0 {
		return []Violation{{
			Field:       field,
			Description: "The limit is negative. Set a positive one, or 0 for no limit.",
		}}
	}
	return nil
}

// mayRead is false: a reservation's length is not read from the input document.
func (lengthFilter) mayRead(...string) bool { return false }

func (lengthFilter) deterministic() bool { return true }

// recordable is true: without a reservation the filter always passes, and about a reservation nothing is
// cached.
func (lengthFilter) recordable() bool { return true }

func (f lengthFilter) check(_ context.Context, q evaluation) Decision {
	operation, lease := q.request.Operation, q.request.Reservation
	if f.limit == 0 || operation != OperationCheckCreate && operation != OperationCheckUpdate {
		return pass
	}
	switch {
	case lease == nil:
		return denied("The length of the reservation is unknown: there is no reservation.")
	case lease.Invalid != "":
		return denied("The length of the reservation is unknown: " + diagnostics.Bounded(lease.Invalid))
	case lease.Start.IsZero() || lease.End.IsZero():
		return denied("The length of the reservation is unknown: it needs a start_date and an end_date.")
	case lease.End.Before(lease.Start):
		return denied("The reservation ends before it starts.")
	case lease.End.Sub(lease.Start) > f.limit:
		return denied("The reservation exceeds the maximum length of " + inWords(f.limit) + ".")
	}
	return pass
}

// denied is the denial of a filter with a reason for the client.
func denied(message string) Decision {
	return Decision{Effect: Deny, Reason: message, Body: message, Value: false}
}

// inWords returns a duration in the largest unit of which it is a multiple, up to hours.
func inWords(d time.Duration) string {
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		if n := d / unit.of; d%unit.of == 0 {
			if n == 1 {
				return "1 " + unit.name
			}
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}
