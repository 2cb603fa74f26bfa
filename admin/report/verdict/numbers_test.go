package verdict

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// TestShare: some is never none, and most is never all.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "-"}, {0, 10, "0%"}, {10, 10, "100%"}, {25, 5000, "0.5%"}, {4975, 5000, "99.5%"}, {1, 1_000_000, "< 0.01%"},
		{999_999, 1_000_000, "> 99.99%"}, {1, 2000, "0.05%"}, {1999, 2000, "99.95%"}, {1, 3, "33%"}, {5, 100, "5%"},
	} {
		if got := Share(c.part, c.whole); got != c.want {
			t.Errorf("Share(%d, %d): got %s, want %s", c.part, c.whole, got, c.want)
		}
	}
}

func TestPeriod(t *testing.T) {
	for d, want := range map[time.Duration]string{
		500 * time.Millisecond: "500ms", 2 * time.Second: "2s", 59*time.Second + 970*time.Millisecond: "1m0s",
		time.Minute: "1m", 12*time.Minute + 30*time.Second: "12m30s", time.Hour: "1h0m", 90 * time.Minute: "1h30m", 72*time.Hour + 20*time.Minute: "3d0h",
	} {
		if got := Period(durationpb.New(d)); got != want {
			t.Errorf("Period(%v): got %s, want %s", d, got, want)
		}
	}
}
