# Nobody passes.
package envoy.authz

allow := false
