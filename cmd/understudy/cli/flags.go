package cli

import (
	"understudy/cmd/understudy/command"
)

// ConnectionFlags are the same for all commands that ask a server.
var ConnectionFlags = []command.FlagGroup{
	{Title: "How the server is reached", Names: []string{"addr", "admin", "location", "ca-cert", "client-cert", "client-key"}},
}
