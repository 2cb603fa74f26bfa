# What the limits must go on to mean, whatever they are:
#   understudy test deploy/examples/reservations/policy.yaml
package reservations_test

import data.reservations

limits := {"default": {"hosts": 2, "hours": 48}, "large": {"hosts": 8, "hours": 1000}}

test_within_the_limits if {
	allowed(create("p", [hosts(2)], "2026-11-21T00:00:00", "2026-11-22T00:00:00"))
}

test_one_host_too_many if {
	reason(create("p", [hosts(3)], "2026-11-21T00:00:00", "2026-11-21T01:00:00")) ==
		"Your project is limited to 2 physical hosts in a lease; this one has 3."
}

test_the_hosts_of_all_reservations_count if {
	denied(create("p", [hosts(1), hosts(1), hosts(1)], "2026-11-21T00:00:00", "2026-11-21T01:00:00"))
}

test_a_minute_too_long if {
	reason(create("p", [hosts(2)], "2026-11-21T00:00:00", "2026-11-22T00:01:00")) ==
		"Your project is limited to 48 host hours in a lease; this one has 49."
}

test_fewer_hosts_may_stay_longer if {
	allowed(create("p", [hosts(1)], "2026-11-21T00:00:00", "2026-11-23T00:00:00"))
}

test_a_project_has_limits_of_its_own if {
	allowed(create("large", [hosts(8)], "2026-11-21T00:00:00", "2026-11-22T00:00:00"))
	denied(create("large", [hosts(9)], "2026-11-21T00:00:00", "2026-11-22T00:00:00"))
}

# Blazar lists allocations by resource type: each of these has those of the last one.
test_allocations_are_not_counted if {
	allowed(create("p", [with_allocations(hosts(1), 3), with_allocations(hosts(1), 3)], "2026-11-21T00:00:00", "2026-11-21T01:00:00"))
	allowed(create("p", [with_allocations(hosts(2), 0)], "2026-11-21T00:00:00", "2026-11-21T01:00:00"))
	denied(create("p", [with_allocations(hosts(3), 1)], "2026-11-21T00:00:00", "2026-11-21T01:00:00"))
}

test_a_number_may_be_a_string if {
	allowed(create("p", [hosts("2")], "2026-11-21T00:00:00", "2026-11-22T00:00:00"))
	denied(create("p", [hosts("3")], "2026-11-21T00:00:00", "2026-11-22T00:00:00"))
}

test_other_resources_are_not_limited if {
	allowed(create("p", [{"resource_type": "virtual:floatingip", "amount": 99}], "2026-11-21 00:00", "2026-11-22 00:00"))
}

test_dates_in_all_forms if {
	every end in ["2026-11-22T00:00:00", "2026-11-22 00:00", "2026-11-22T01:00:00+01:00", "2026-11-22T00:00:00Z"] {
		allowed(create("p", [hosts(2)], "2026-11-21 00:00", end))
	}
}

test_what_cannot_be_read_is_denied if {
	denied(create("p", [hosts(1)], "2026-11-21T00:00:00", "tomorrow"))
	denied(create("p", [hosts(1)], "2026-11-21T00:00:00", null))
	denied(create("p", [hosts(1)], "2026-11-22T00:00:00", "2026-11-21T00:00:00"))
	denied(create("p", [{"resource_type": "physical:host"}], "2026-11-21T00:00:00", "2026-11-21T01:00:00"))
	denied(create("p", [hosts(1), {"max": 1}], "2026-11-21T00:00:00", "2026-11-21T01:00:00"))
	denied({"operation": "check_create", "context": {}, "lease": {}})
	denied({"operation": "check"})
}

test_an_update_counts_as_it_would_be if {
	allowed(update({"reservations": [{"id": "r1", "max": 2, "allocations": []}]}))
	denied(update({"reservations": [{"id": "r1", "max": 3, "allocations": []}]}))
	denied(update({"reservations": [{"id": "r2", "max": 2}, object.union(hosts(1), {"id": "r1"})]}))
	allowed(update({"reservations": []}))
	allowed(update({"end_date": "2026-11-22T12:00:00"}))
	denied(update({"end_date": "2026-11-23T12:00:00"}))
	denied(update({"end_time": "2026-11-23 12:00"}))
	denied(update({"end_date": "never"}))
}

# The candidates of an update are those of the reservation as it was: five.
test_an_update_may_shrink_what_is_too_large if {
	large := {
		"id": "l", "status": "UPDATING", "start_date": "2026-11-21T00:00:00", "end_date": "2026-11-21T01:00:00",
		"reservations": [object.union(with_allocations(hosts(5), 5), {"id": "r1", "status": "pending"})],
	}
	smaller := {
		"start_date": "2026-11-21T00:00:00", "end_date": "2026-11-21T01:00:00",
		"reservations": [with_allocations({"id": "r1", "max": 2, "resource_type": "physical:host"}, 5)],
	}
	allowed({"operation": "check_update", "context": {"project_id": "p"}, "lease": smaller, "current_lease": large})
}

test_an_update_without_ids_is_whole if {
	allowed(whole_update({"reservations": [hosts(1)]}, {"reservations": [hosts(2)]}))
	denied(whole_update({"reservations": [hosts(1)]}, {"reservations": [hosts(2), hosts(1)]}))
	denied(whole_update({"reservations": [hosts(3)]}, {}))
}

test_an_end_is_never_denied if {
	allowed({"operation": "on_end", "context": {}, "lease": {"end_date": "never"}})
}

allowed(request) if {
	decision := reservations.allow with input as request with data.limits as limits
	decision.allowed
}

denied(request) if reason(request) != ""

reason(request) := decision.reason if {
	decision := reservations.allow with input as request with data.limits as limits
	not decision.allowed
}

hosts(n) := {"resource_type": "physical:host", "min": 1, "max": n, "hypervisor_properties": "", "resource_properties": ""}

with_allocations(reservation, n) := object.union(reservation, {"allocations": [{"id": sprintf("%d", [i])} | some i in numbers.range(1, n); n > 0]})

create(project, list, start, end) := {
	"operation": "check_create",
	"context": {"user_id": "u", "project_id": project},
	"lease": {"name": "l", "start_date": start, "end_date": end, "reservations": list},
}

# An update of a lease of one host for twelve hours.
update(changes) := {
	"operation": "check_update",
	"context": {"user_id": "u", "project_id": "p"},
	"lease": changes,
	"current_lease": {
		"id": "l", "start_date": "2026-11-21T00:00:00", "end_date": "2026-11-21T12:00:00",
		"reservations": [object.union(hosts(1), {"id": "r1", "allocations": [{"id": "1"}]})],
	},
}

# An update in the form of Blazar's specification.
whole_update(from, to) := {
	"operation": "check_update", "context": {"project_id": "p"},
	"lease": object.union(dates, to), "current_lease": object.union(dates, from),
}

dates := {"start_date": "2026-11-21 00:00", "end_time": "2026-11-21 01:00"}
