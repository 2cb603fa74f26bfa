package rego

import (
	"io/fs"
	"os"
	"path"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// zoneFolders are where Go looks for the files of time zones on a system of Unix's kind, after
// ZONEINFO.
var zoneFolders = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// LoadTimeZones loads all time zones of this system, some 600 in a megabyte, for a process that
// opens no file afterwards: it then evaluates built-ins for time with the same zones as one that
// does. Where there is no file, both have the zones that are part of Go. Other names for zones,
// in the folders posix and right, are left out, and so are those of a ZONEINFO that is no folder.
func LoadTimeZones() {
	for _, folder := range append([]string{os.Getenv("ZONEINFO")}, zoneFolders...) {
		if folder == "" {
			continue
		}
		// What cannot be read has no zones.
		_ = fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fs.SkipDir
			case !d.IsDir():
				loadTimeZone(name)
			case name == "posix", name == "right":
				return fs.SkipDir
			}
			return nil
		})
	}
}

// loadTimeZone has OPA load and keep a zone, as it does when a policy asks for it first. A file
// that is none is left out.
func loadTimeZone(name string) {
	if path.Ext(name) != "" {
		return // zone.tab, tzdata.zi
	}
	moment := ast.ArrayTerm(ast.IntNumberTerm(0), ast.StringTerm(name))
	_ = topdown.GetBuiltin(ast.Clock.Name)(topdown.BuiltinContext{}, []*ast.Term{moment}, func(*ast.Term) error { return nil })
}
