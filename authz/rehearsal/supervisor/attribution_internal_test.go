package supervisor

import "testing"

// TestNextChild has the next child wait for long only if nobody knows why the last one ended:
// what the API refuses delays no experiment.
func TestNextChild(t *testing.T) {
	for name, tt := range map[string]struct {
		attribution attribution
		cause       cause
		want        restart
	}{
		"a policy has taken too much memory": {attribution{culprit: &lane{}}, causeMemory, soon},
		"nobody knows yet":                   {attribution{}, causeMemory, later},
		"somebody has killed it":             {attribution{culprit: &lane{}}, causeKilled, later},
	} {
		if got := tt.attribution.next(end{cause: tt.cause}); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}
