package bounds

import "net/netip"

// networkSize is how many addresses a network has, at most more than the limit. 0 is a
// text that is no network, which OPA's function refuses at once.
func networkSize(cidr string) int {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return 0
	}
	host := prefix.Addr().BitLen() - prefix.Bits()
	if host >= 20 {
		return 1 << 20
	}
	return 1 << host
}
