package command

import (
	"errors"

	"github.com/spf13/pflag"
)

// condition is the value of a flag that a change depends on.
type condition string

// ConditionFlag is the name of a flag that a change depends on.
type ConditionFlag string

// The flags that a change depends on.
const (
	Etag           ConditionFlag = "etag"
	ParentEtag     ConditionFlag = "parent-etag"
	ParentRevision ConditionFlag = "parent-revision"
)

// BindCondition declares a flag that a change depends on. An empty value is a mistake, and not the same as
// no flag: it is what a script has after the command failed that should have printed the value.
func BindCondition(flags *pflag.FlagSet, value *string, name ConditionFlag, usage string) {
	flags.Var((*condition)(value), string(name), usage)
}

// String implements pflag.Value.
func (c *condition) String() string { return string(*c) }

// Set implements pflag.Value.
func (c *condition) Set(text string) error {
	if text == "" {
		return errors.New("it is empty; perhaps the command failed that should have printed it")
	}
	*c = condition(text)
	return nil
}

// Type implements pflag.Value.
func (c *condition) Type() string { return "string" }
