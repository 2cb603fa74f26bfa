// Package policyfile is the Policyfile HTTP API of RFC-042 over an
// [understudy/admin.Library]: what Chef's clients speak, in their shapes.
//
// A policy group is a location, an organization a project, and what is active in a
// group is that location's live policy, whichever API made it so. A lock is kept and
// served byte for byte. It is enforced if every recipe of its run list resolves:
// recipe[C::R] asks the rule data.C.R of the module that is the text in
// cookbook_locks.C.rego, whose SHA-256 is the identifier; the order of the run list
// is that of the chain. Any other lock, such as one of Chef's, is a policy without
// rules. A revision that the other API made is served as the lock that says the same.
//
// Next to locks it serves what chef-cli asks for while it pushes one: cookbook artifacts,
// of which the manifests are kept, and sandboxes, which never need a file.
//
// The package guarantees that a new revision_id is the hash of its document (unless
// it is configured to trust it), that a known revision never changes, and that every change is
// one transaction. Answers are synchronous: 200 means that it is stored, and, where
// sidecars apply it within two seconds, applied.
package policyfile
