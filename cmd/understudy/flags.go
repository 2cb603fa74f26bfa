package main

// connectionFlags are the same for all commands that ask a server.
var connectionFlags = []flagGroup{
	{title: "How the server is reached", names: []string{"addr", "admin", "location", "ca-cert", "client-cert", "client-key"}},
}
