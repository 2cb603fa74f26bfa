package supervisor

import "testing"

// TestNextChild has the next child wait for long only if nobody knows why the last one ended:
// what the API refuses delays no experiment.
func TestNextChild(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict verdict
		cause   cause
		want    restart
	}{
		"a policy has taken too much memory": {verdict{guilty: &lane{}}, causeMemory, soon},
		"nobody knows yet":                   {verdict{}, causeMemory, later},
		"somebody has killed it":             {verdict{guilty: &lane{}}, causeKilled, later},
	} {
		if got := tt.verdict.next(end{cause: tt.cause}); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}
