package main

import (
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
	if s.login != nil {
		c.Login, c.Authenticator = s.login, s.login
	}
	var err error
	s.ui, err = ui.New(c)
	return err
}
