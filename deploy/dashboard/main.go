// Dashboard writes the dashboard for Grafana, understudy.json, and a drawing of it, understudy.svg:
//
//	go -C deploy/dashboard run .
//
// It is a module of its own, so that only those who change the dashboard need Grafana's SDK.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// The files that are checked in.
const (
	dashboardFile = "understudy.json"
	pictureFile   = "understudy.svg"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// write writes both files.
func write() error {
	content, err := marshal()
	if err != nil {
		return err
	}
	if err := os.WriteFile(dashboardFile, content, 0o644); err != nil {
		return err
	}
	return os.WriteFile(pictureFile, draw(rows), 0o644)
}

// marshal returns the dashboard as JSON.
func marshal() ([]byte, error) {
	built, err := build(rows)
	if err != nil {
		return nil, fmt.Errorf("building the dashboard: %w", err)
	}
	content, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the dashboard: %w", err)
	}
	return append(content, '\n'), nil
}
