# What another route's policy decides: everybody passes, and the upstream sees which
# policy that was.
package envoy.authz

allow := {"allowed": true, "headers": {"x-policy": "the other one"}}
