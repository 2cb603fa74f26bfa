package report

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
)

// minimum is a limit on a number from below. More traffic can always meet it.
func minimum(
	name string, field func(*adminpb.CommitRequirements) *int64, judge func(m measured) (have int64, text string),
) requirement {
	return requirement{
		name: name, operator: atLeast, form: countForm,
		set: func(r *adminpb.CommitRequirements, value string) (err error) {
			*field(r), err = parseCount(value)
			return err
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) {
			return formatCount(*field(r)), *field(r) != 0
		},
		judge: func(r *adminpb.CommitRequirements, m measured) judgement {
			need := *field(r)
			have, text := judge(m)
			return judgement{have: m.scoped(text), need: "at least " + Number(need), met: have >= need}
		},
	}
}

// minRequests is the number of requests compared that one side allows.
func minRequests() requirement {
	field := func(r *adminpb.CommitRequirements) *int64 { return &r.MinRequestCount }
	return minimum(minRequestsName, field, func(m measured) (int64, string) {
		have := Allowed(m.counts)
		text := Number(have)
		if rest := m.counts.GetRequestCount() - have; rest > 0 {
			text += " (" + Number(rest) + " more that both deny do not count)"
		}
		return have, text
	})
}

// minCallers is the number of distinct callers of those. Of an estimate the lower end counts.
func minCallers() requirement {
	field := func(r *adminpb.CommitRequirements) *int64 { return &r.MinCallerCount }
	return minimum(minCallersName, field, func(m measured) (int64, string) {
		n, text := distinct(m, m.counts.GetCallerCount())
		if !evidence.IsEstimate(n) {
			return n, text
		}
		least := evidence.FewestCallers(n)
		return least, Callers(n) + " (at least " + Number(least) + ")"
	})
}

// minEndpoints is the number of distinct methods and paths of those.
func minEndpoints() requirement {
	field := func(r *adminpb.CommitRequirements) *int64 { return &r.MinEndpointCount }
	return minimum(minEndpointsName, field, func(m measured) (int64, string) { return distinct(m, m.counts.GetEndpointCount()) })
}

// distinct writes how many distinct callers or endpoints the requests have that one side allows.
// If there are such requests, and nobody was told apart, it is not known.
func distinct(m measured, n int64) (int64, string) {
	if n == 0 && Allowed(m.counts) > 0 {
		return 0, "not known"
	}
	return n, Number(n)
}

// minDuration is the time in which the experiment was ACTIVE.
func minDuration() requirement {
	return requirement{
		name: minDurationName, operator: atLeast, form: durationForm,
		set: func(r *adminpb.CommitRequirements, value string) error {
			d, err := parseDuration(value)
			r.MinDuration = durationpb.New(d)
			return err
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) {
			return Duration(r.GetMinDuration().AsDuration()), r.GetMinDuration() != nil
		},
		judge: func(r *adminpb.CommitRequirements, m measured) judgement {
			need, have := r.MinDuration.AsDuration(), m.duration
			shown := have
			if have > time.Second {
				shown = have.Truncate(time.Second)
			}
			return judgement{have: m.scoped(Duration(shown)), need: "at least " + Duration(need), met: have >= need}
		},
	}
}

// optional returns how a field that may be absent is set and read.
func optional[T any](
	field func(*adminpb.CommitRequirements) **T, parse func(string) (T, error), format func(T) string,
) (set func(*adminpb.CommitRequirements, string) error, value func(*adminpb.CommitRequirements) (string, bool)) {
	set = func(r *adminpb.CommitRequirements, text string) error {
		v, err := parse(text)
		*field(r) = &v
		return err
	}
	value = func(r *adminpb.CommitRequirements) (string, bool) {
		v := *field(r)
		if v == nil {
			return "", false
		}
		return format(*v), true
	}
	return set, value
}
