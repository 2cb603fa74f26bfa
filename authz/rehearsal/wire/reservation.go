package wire

import (
	"encoding/json"
	"strings"

	"understudy/authz"
)

// parseReservation reads the JSON of a reservation.
func parseReservation(text string) (*authz.Reservation, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	r := &authz.Reservation{}
	if err := decoder.Decode(r); err != nil {
		return nil, err
	}
	return r, nil
}
