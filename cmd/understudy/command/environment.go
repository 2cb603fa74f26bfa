package command

import (
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// envPrefix begins the environment variable of each flag of serve: --store is
// UNDERSTUDY_STORE. A flag wins over its variable.
const envPrefix = "UNDERSTUDY_"

// FromEnvironment sets the flags that were not given from their variables.
//
// It returns all errors at once. They name the variable and the form of its value, but not the
// value, which may be a secret. A variable that is empty is set too, and its flag gets an empty
// value.
func FromEnvironment(f *pflag.FlagSet) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if flag.Changed || !set {
			return
		}
		if err := f.Set(flag.Name, value); err != nil {
			errs = append(errs, errors.New(name+": "+formOf(flag.Value.Type())))
		}
	})
	return errors.Join(errs...)
}

// formOf returns the form of the values of a type of flags.
func formOf(flagType string) string {
	switch flagType {
	case "bool":
		return "it is true or false"
	case "duration":
		return "it is a time such as 500ms or 1m30s"
	case "float64":
		return "it is a number"
	case "stringSlice":
		return "it is a list with commas; a value with a quote is quoted, and each quote in it is doubled"
	case "stringToString":
		return "it is a list of NAME=VALUE with commas"
	}
	if strings.HasPrefix(flagType, "int") || strings.HasPrefix(flagType, "uint") {
		return "it is a whole number in the range of the type " + flagType
	}
	return "its value does not have the form of the flag; the help has it"
}

// ofService matches the variables that Kubernetes sets for a Service, in each
// container next to it.
var ofService = regexp.MustCompile(`_(PORT|SERVICE_HOST|SERVICE_PORT)(_|$)`)

// FlagValue is a flag with the value that it was given.
type FlagValue struct{ Flag, Value string }

// StrayVariables are those that begin as the variables of flags do and are no flag's,
// nor read by a command: probably misspelt.
//
// They are only warned of: a variable may be meant for a later version, and a sidecar
// that does not start for it denies everything.
func StrayVariables(f *pflag.FlagSet) []string {
	known := map[string]bool{
		"CA_CERT": true, "CLIENT_CERT": true, "CLIENT_KEY": true, "TOKEN": true, "TOKEN_FILE": true, "ISSUER": true, "CLIENT_ID": true,
	}
	f.VisitAll(func(flag *pflag.Flag) {
		known[strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))] = true
	})
	var stray []string
	for _, variable := range os.Environ() {
		full, _, _ := strings.Cut(variable, "=")
		name, ours := strings.CutPrefix(full, envPrefix)
		if ours && !known[name] && !ofService.MatchString("_"+name) {
			stray = append(stray, full)
		}
	}
	return stray
}

// Variable is the name of a variable without UNDERSTUDY_ before it.
type Variable string

// EnvOr returns an UNDERSTUDY_ variable, or what stands in for it.
func EnvOr(name Variable, otherwise string) string {
	if v := os.Getenv(envPrefix + string(name)); v != "" {
		return v
	}
	return otherwise
}
