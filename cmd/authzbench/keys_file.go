package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// keysFile is where a folder of policies has the keys that their data knows.
const keysFile = "keys.json"

// storedKeys is the content of keysFile. They sign nothing but the traffic of a
// measurement, so that a file readable by its owner is enough care.
type storedKeys struct {
	Secret string `json:"secret"`
	RSA    []byte `json:"rsa"` // PKCS #8
}

// newPolicies is the command for servers that this program cannot start, such as
// opa-envoy-plugin: they need the data as files, and traffic signed by the keys that
// are in it.
func newPolicies() *cobra.Command {
	return &cobra.Command{
		Use:   "policies DIRECTORY",
		Short: "Write the policies and their data, for servers that you start yourself",
		Long: `Write each policy with its data into a folder of DIRECTORY, and keys next to them.
Start a server with one of them, then let it join with

  authzbench run --policies DIRECTORY --policy NAME --target name=host:port,pid=N

so that the tokens of the traffic are those that its data knows.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return writePolicies(args[0]) },
	}
}

// writePolicies writes the modules of each policy, such as NAME/policy.rego, and NAME/data.json.
func writePolicies(folder string) error {
	k, err := newKeys()
	if err != nil {
		return err
	}
	for _, name := range policyNames {
		p, err := newPolicy(name, k)
		if err != nil {
			return err
		}
		data, err := json.MarshalIndent(p.Data, "", " ")
		if err != nil {
			return err
		}
		own := filepath.Join(folder, name)
		errs := []error{os.MkdirAll(own, 0o755), os.WriteFile(filepath.Join(own, "data.json"), data, 0o644)}
		for file, text := range p.modules() {
			errs = append(errs, os.WriteFile(filepath.Join(own, file), []byte(text), 0o644))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return k.write(filepath.Join(folder, keysFile))
}

// write writes keysFile.
func (k *keys) write(file string) error {
	der, err := x509.MarshalPKCS8PrivateKey(k.rsa)
	if err != nil {
		return fmt.Errorf("encoding the keys: %w", err)
	}
	content, err := json.Marshal(storedKeys{k.secret, der})
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// readKeys reads the keys that writePolicies wrote into a folder.
func readKeys(folder string) (*keys, error) {
	content, err := os.ReadFile(filepath.Join(folder, keysFile))
	if err != nil {
		return nil, fmt.Errorf("--policies: %w; `authzbench policies` makes such a folder", err)
	}
	var stored storedKeys
	if err := json.Unmarshal(content, &stored); err != nil {
		return nil, fmt.Errorf("--policies: reading %s: %w", keysFile, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(stored.RSA)
	if err != nil {
		return nil, fmt.Errorf("--policies: reading %s: %w", keysFile, err)
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("--policies: the key in %s is not of RSA", keysFile)
	}
	return &keys{secret: stored.Secret, rsa: private}, nil
}
