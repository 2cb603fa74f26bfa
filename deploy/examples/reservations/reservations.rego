# How much one lease of OpenStack Blazar may reserve: hosts at once, and hosts times
# hours. The limits are in the data. Blazar's user reads the reason of a denial.
package reservations

# What cannot be read is not allowed.
default allow := {"allowed": false, "reason": "The hosts or the dates of this lease cannot be read, so it is not allowed."}

# An end is a notification: no decision changes it.
allow := {"allowed": true} if input.operation == "on_end"

allow := {"allowed": true} if {
	asked
	hosts <= limit.hosts
	hours <= limit.hours
}

allow := {"allowed": false, "reason": reason} if {
	asked
	hosts > limit.hosts
	reason := sprintf("Your project is limited to %v physical hosts in a lease; this one has %v.", [limit.hosts, hosts])
}

allow := {"allowed": false, "reason": reason} if {
	asked
	hosts <= limit.hosts
	hours > limit.hours
	reason := sprintf("Your project is limited to %v host hours in a lease; this one has %v.", [limit.hours, ceil(hours)])
}

asked if input.operation in {"check_create", "check_update"}

limit := object.get(data.limits, input.context.project_id, data.limits["default"])

# It is undefined if that of any reservation is.
hosts := sum(counts) if count(counts) == count(reservations)

counts := [n | some r in reservations; n := hosts_of(r)]

# A reservation of hosts gets at most max of them. Its allocations are not counted: Blazar
# lists candidates by resource type, so that two reservations of hosts show the same ones,
# and of an update those of the reservations as they were.
hosts_of(r) := to_number(r.max) if r.resource_type == "physical:host"

hosts_of(r) := 0 if r.resource_type != "physical:host"

# The reservations as they would be. An update has of a reservation what changes, and
# its ID; where there are no IDs, as in Blazar's specification, it has all of them whole.
reservations := array.concat(
	[object.union(r, change_of(r)) | some r in input.current_lease.reservations; r.id],
	[r | some r in input.lease.reservations; not stored(r)],
) if {
	input.lease.reservations
} else := input.current_lease.reservations

change_of(r) := change if {
	some change in input.lease.reservations
	change.id == r.id
} else := {}

stored(r) if {
	some c in input.current_lease.reservations
	c.id == r.id
}

# In hosts times hours.
hours := (hosts * (end - start)) / 3600000000000 if end >= start

start := moment(date_of(["start_date", "start_time"]))

end := moment(date_of(["end_date", "end_time"]))

# An update need not name a date that stays. Which one counts is decided before it is
# read: one that cannot be read must not make way for another.
date_of(names) := [date |
	some lease in [input.lease, object.get(input, "current_lease", {})]
	some name in names
	date := lease[name]
][0]

# Blazar's dates have no zone and are UTC.
moment(date) := ns if {
	ns := time.parse_rfc3339_ns(date)
} else := ns if {
	ns := time.parse_ns("2006-01-02T15:04:05", date)
} else := ns if {
	ns := time.parse_ns("2006-01-02 15:04", date)
}
