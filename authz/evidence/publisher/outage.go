package publisher

import (
	"log/slog"
	"time"
)

// patience is for how long publications may fail before a warning is logged: a store that is
// away is reported elsewhere, and mostly is back by then.
const patience = 15 * time.Second

// outage is the time in which nothing could be published. The zero value is none.
type outage struct {
	since time.Time
	// logged says that the warning was.
	logged bool
}

// note logs what became of a publication: a failure that lasts is a warning, once, and so is
// its end.
func (o *outage) note(log *slog.Logger, now time.Time, err error) {
	switch {
	case err == nil:
		if o.logged {
			log.Info("evidence is published again")
		}
		*o = outage{}
	case o.since.IsZero():
		o.since = now
		log.Debug("evidence could not be published; this is tried again", "error", err)
	case !o.logged && now.Sub(o.since) >= patience:
		o.logged = true
		log.Warn("what is counted of experiments cannot be published; it is kept, and this is tried again", "since", o.since, "error", err)
	}
}
