package oidc

import "time"

// SetSpacing sets the least time between two attempts to read the keys.
func (i *Issuer) SetSpacing(d time.Duration) { i.spacing = d }
