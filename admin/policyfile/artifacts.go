package policyfile

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/library"
)

// Before it puts a lock, `chef push` asks which of the lock's cookbooks the server has
// (GET /cookbook_artifacts?num_versions=all), has their files uploaded through a sandbox
// and puts the manifest of each. Manifests are kept. Files are not: nothing here runs a
// cookbook, so a sandbox says that it needs none of them.

// artifactVersion is an entry of a list of artifacts.
type artifactVersion struct {
	URL        string `json:"url"`
	Identifier string `json:"identifier"`
}

// artifactVersions is what a list says of one cookbook.
type artifactVersions struct {
	URL      string            `json:"url"`
	Versions []artifactVersion `json:"versions"`
}

// artifact is the artifact in the path.
func (c *call) artifact() library.ArtifactID {
	return library.ArtifactID{Cookbook: c.parameters[":cookbook"], Identifier: c.parameters[":identifier"]}
}

// listArtifacts lists all versions, whatever num_versions says: there is no newest one
// of what is named by its content.
func listArtifacts(c *call) (*reply, error) {
	artifacts, err := c.library.Artifacts(c.context, c.parameters[":cookbook"])
	if err != nil {
		return nil, err
	}
	out := make(map[string]artifactVersions)
	for _, a := range artifacts {
		cookbook := out[a.Cookbook]
		cookbook.URL = c.uri("cookbook_artifacts", a.Cookbook)
		cookbook.Versions = append(cookbook.Versions, artifactVersion{c.uri("cookbook_artifacts", a.Cookbook, a.Identifier), a.Identifier})
		out[a.Cookbook] = cookbook
	}
	if _, one := c.parameters[":cookbook"]; one && len(out) == 0 {
		return nil, errNoArtifact
	}
	return &reply{status: http.StatusOK, value: out}, nil
}

// getArtifact returns a manifest byte for byte: clients compare its checksums with their
// files.
func getArtifact(c *call) (*reply, error) {
	manifest, err := c.library.Artifact(c.context, c.artifact())
	if err != nil {
		return nil, orMissing(err, noArtifact)
	}
	return &reply{status: http.StatusOK, document: manifest}, nil
}

// putArtifact stores a manifest as it is. Its name and its identifier are those of the
// path.
func putArtifact(c *call) (*reply, error) {
	fields, err := members(c.body)
	if err != nil {
		return nil, invalid("invalid JSON : " + err.Error())
	}
	a := c.artifact()
	want := map[string]string{"name": a.Cookbook, "identifier": a.Identifier}
	for _, f := range fields {
		of, named := want[f.name]
		if !named {
			continue
		}
		switch value, ok := text(f.value); {
		case !ok:
			return nil, invalidField(f.name)
		case value != of:
			return nil, invalid(fmt.Sprintf("Field '%s' invalid : %s does not match %s", f.name, of, value))
		}
		delete(want, f.name)
	}
	for _, name := range []string{"identifier", "name"} {
		if _, missing := want[name]; missing {
			return nil, invalid("Field '" + name + "' missing")
		}
	}
	err = c.library.AddArtifact(c.context, a, c.body)
	if status.Code(err) == codes.AlreadyExists {
		known := problem(http.StatusConflict, "Cookbook artifact already exists").because(err)
		known.alone = true // Chef's server writes this one so
		return nil, known
	}
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusCreated, document: c.body}, nil
}

// deleteArtifact answers with what it has removed, as all deletions of Chef's API do.
func deleteArtifact(c *call) (*reply, error) {
	manifest, err := c.library.RemoveArtifact(c.context, c.artifact())
	if err != nil {
		return nil, orMissing(err, noArtifact)
	}
	return &reply{status: http.StatusOK, document: manifest}, nil
}

// noArtifact is the text of Chef's server for an artifact or a cookbook that is not there.
const noArtifact = "not_found"

var errNoArtifact = problem(http.StatusNotFound, noArtifact)

// orNoArtifact is the error of a name that no artifact can have: that of the field where one is
// put, and elsewhere that there is none.
func orNoArtifact(route string, malformed error) error {
	if route == routeOfManifests {
		return malformed
	}
	return errNoArtifact
}
