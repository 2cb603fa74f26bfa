package publisher

import (
	"log/slog"
	"time"
)

// patience is for how long publications may fail before operators are told: a store that is
// away is reported elsewhere, and mostly is back by then.
const patience = 15 * time.Second

// outage is the time in which nothing could be published. The zero value is none.
type outage struct {
	since time.Time
	told  bool
}

// note logs what became of a publication: a failure that lasts is a warning, once, and so is
// said when it is over.
func (o *outage) note(log *slog.Logger, now time.Time, err error) {
	switch {
	case err == nil:
		if o.told {
			log.Info("evidence is published again")
		}
		*o = outage{}
	case o.since.IsZero():
		o.since = now
		log.Debug("evidence could not be published; this is tried again", "error", err)
	case !o.told && now.Sub(o.since) >= patience:
		o.told = true
		log.Warn("what is counted of experiments cannot be published; it is kept, and this is tried again", "since", o.since, "error", err)
	}
}
