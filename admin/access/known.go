package access

import "context"

// knownKey is the key of what NewUnknown puts into a context.
type knownKey struct{}

// NewUnknown returns a context of a request whose sender nobody knows yet. known is called by
// Known, on whose side it is safe to call it more than once.
func NewUnknown(ctx context.Context, known func()) context.Context {
	return context.WithValue(ctx, knownKey{}, known)
}

// Known says that the credentials of the request of a context were found to be good. Anyone who
// verifies credentials calls it as soon as they are, before more of the request is read: what a
// server lets a sender send whom it does not know is little. Without NewUnknown it does nothing.
func Known(ctx context.Context) {
	if known, ok := ctx.Value(knownKey{}).(func()); ok {
		known()
	}
}
