package main

import (
	"net/http"

	"understudy/admin/authentication/browser"
	"understudy/admin/rest"
	"understudy/admin/ui"
)

// openPage makes the page at /ui/ from what the API is made of. Whoever is known to the API
// is known to it, and beside that who has a session of a browser.
func (s *server) openPage(edge rest.Config) error {
	c := ui.Config{
		Services: edge.Services, Authorizer: edge.Authorizer, Location: string(s.config.Location),
		Guard: edge.Guard, Logger: edge.Logger, Panics: edge.Panics,
	}
	if s.authentication != nil {
		login, err := browser.New(browser.Config{
			Authenticator: s.authentication, Guard: edge.Guard,
			Layout: func(w http.ResponseWriter, r *http.Request, p browser.Page) {
				s.ui.Layout(w, r, p.Status, p.Title, p.Body)
			},
		})
		if err != nil {
			return err
		}
		c.Login, c.Authenticator = login, login
	}
	var err error
	s.ui, err = ui.New(c)
	return err
}
