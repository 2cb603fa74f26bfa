package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"github.com/spf13/pflag"

	"understudy/admin/access"
	"understudy/admin/policyfile/acl"
	"understudy/admin/policyfile/signature"
	"understudy/cmd/understudy/command"
)

// chefConfig is who signs requests of the Policyfile API, as Chef's clients do.
type chefConfig struct {
	// chefKeys are NAME=FILE, the name of a user or client and a PEM file with its key.
	chefKeys []string
}

// bind declares the flags.
func (c *chefConfig) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&c.chefKeys, "chef-key", nil, "NAME=FILE.pem: the public RSA key of a user or client that signs requests of the Policyfile API as knife does; the file is read again when it changes, and is no key while it is gone")
}

// signatures reports whether signed requests are taken.
func (c *chefConfig) signatures() bool { return len(c.chefKeys) > 0 }

// check calls check with each rule and whether it is kept.
func (c *chefConfig) check(check rule) {
	if _, err := c.files(); err != nil {
		check(false, "chef-key", err.Error())
	}
}

// files :: name → file.
func (c *chefConfig) files() (map[string]string, error) {
	files := make(map[string]string)
	for _, key := range c.chefKeys {
		name, file, ok := strings.Cut(key, "=")
		switch {
		case !ok || name == "" || file == "":
			return nil, fmt.Errorf("%q is not like NAME=FILE.pem", key)
		case files[name] != "":
			return nil, fmt.Errorf("%s has two files; name the one that counts", name)
		}
		files[name] = file
	}
	return files, nil
}

// openKeyring reads the files; nil if there are none.
func (c *chefConfig) openKeyring(log *slog.Logger) (*signature.Keyring, error) {
	if !c.signatures() {
		return nil, nil
	}
	files, err := c.files()
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--chef-key: %w", err))
	}
	keys, err := signature.OpenKeyring(files, log)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--chef-key: %w", err))
	}
	return keys, nil
}

// chefIAM is the bindings of IAM for the Policyfile API.
type chefIAM struct{ service iampb.IAMPolicyServer }

// Bindings implements [policyfile.IAM].
func (c chefIAM) Bindings(ctx context.Context, resource string) (acl.Bindings, []byte, error) {
	policy, err := c.service.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: resource})
	if err != nil {
		return nil, nil, err
	}
	bindings := make(acl.Bindings)
	for _, b := range policy.Bindings {
		for _, member := range b.Members {
			bindings[member] = append(bindings[member], access.Role(b.Role))
		}
	}
	return bindings, policy.Etag, nil
}

// SetBindings implements [policyfile.IAM].
func (c chefIAM) SetBindings(ctx context.Context, resource string, b acl.Bindings, etag []byte) error {
	members := make(map[access.Role][]string)
	for _, member := range slices.Sorted(maps.Keys(b)) {
		for _, role := range b[member] {
			members[role] = append(members[role], member)
		}
	}
	policy := &iampb.Policy{Etag: etag}
	for _, role := range slices.Sorted(maps.Keys(members)) {
		policy.Bindings = append(policy.Bindings, &iampb.Binding{Role: string(role), Members: members[role]})
	}
	_, err := c.service.SetIamPolicy(ctx, &iampb.SetIamPolicyRequest{Resource: resource, Policy: policy})
	return err
}
