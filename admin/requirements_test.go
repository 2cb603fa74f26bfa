// The requirement table. Each row of the requirements is a file of
// testdata/requirements, named by its ID: it begins with the sentence of the
// requirement, and what follows proves it. Every row runs over real HTTP, once on
// each store, so
//
//	go test ./admin -run TestRequirements/A-55
//
// shows whether, and how, the rule A-55 holds.
//
// # The language
//
// A file is a txtar archive: the script comes first, then the files that it names.
// A line is a statement. A line that begins with a blank continues the one before;
// # begins a comment; empty lines mean nothing.
//
// Each row begins with the base fixture: the policy web, which allows GET, and its
// experiment e1, which allows POST.
//
//	fixture none            without it: an empty store
//	fixture policy          without the experiment
//
// # Variables
//
//	$L $POL $EXP            paths: /v1/projects/…/locations/l1, …/policies/web, …/experiments/e1
//	$l $pol $exp            the same as resource names, without /v1/; $P and $p are the project
//	$NOW                    the present time of the clock, RFC 3339
//	E = .etag               captures a part of the present document
//	LONG = repeat a 64      a text that is too long to write down
//
// A variable is written with URL escapes in a query, with JSON escapes inside a JSON
// string, and as a JSON value elsewhere in a body: {"etag":$E,"policy":$WEB.policy}.
// "rules":RULES_A in a body stands for the rules and modules of a policy that allows
// GET, RULES_B for one that allows POST.
//
// # Calls
//
//	GET $POL/experiments?filter=preview_metadata.state = ACTIVE
//	POST $EXP:commit {"etag":$E}
//	PATCH $POL @body.json   the body is a file of the archive, sent as it is; so is a
//	PATCH $POL $BODY        variable that holds a text
//	header If-Match: "x"    a header of the next call
//	via s2                  further calls go to the server s2 (see below)
//	as token:ann            further calls are authenticated as hers; without a name as nobody's
//	PROMOTE $l web api      promotes these policies of a location, or all, as they are now on both
//	                        sides, to its next location; ?validateOnly=true behind the name
//	                        only validates
//	guard token:root        from here on the server asks who calls, and checks each call;
//	                        token:root owns everything
//
// A query may be written with blanks and quotes; they are escaped. A call has to
// succeed, unless one of these follows:
//
//	error 409 ABORTED ETAG_MISMATCH
//	error 404 NOT_FOUND     whatever the reason
//	status 405              whatever the answer
//	replies Allow: GET      a header of the answer
//
// The answer is the present document. After error, it is {"code","status","message"}
// and the details by type: {"ErrorInfo":{…},"BadRequest":{…}}. Every error, wherever
// it occurs, is held to the rules E-1 to E-5 and E-10.
//
//	OP Policy               the answer is an operation; wait for it. The response,
//	                        which is a Policy, becomes the present document.
//	OP                      … whatever it is, even an error
//
// A path may begin with op instead of a point: op.metadata.verb is that of the
// operation that the last OP waited for.
//
// # Checks of the present document
//
//	is .etag $E             equal, as JSON; a bare word is a text
//	not .etag $E            different
//	matches .name ^projects/
//	has .name               there, and not empty
//	absent .previewMetadata not there
//	count .operations 2     the length of an array or object
//	ids .policies web x     the IDs of an array's resources, in order
//	now .startTime          a time between the sending of the last call and its answer
//	later .startTime $T     a time after another
//	violation etag ~ why    the BadRequest names the field; the text is a regexp
//	same $A $B              two values that were captured are equal
//
// # Traffic
//
//	node n1                 starts a real sidecar with its ext_authz server, whose
//	                        records go to a real OTLP receiver; n1@l2 is one of l2
//	TRAFFIC POST 403        a CheckRequest over gRPC, and Envoy's answer to the client
//	TRAFFIC GET /x 200 times=10 policy=other header.cookie=secret
//	TRAFFIC GET 200 node=n1@l2
//	                        only this one is asked
//	LOGS e1 3               the receiver has got 3 records of e1 since the row began,
//	                        and no more: it waits for them, and the end of the row,
//	                        after the sidecars have finished, proves that none came later
//	record e1               the last record of e1 becomes the present document:
//	                        .text is its body, .body the JSON in it, .attributes
//	nolog secret            no record has the text
//	stop n1                 stops the sidecar
//
// # Further nodes, servers, time
//
//	peer n2 lags            a node that reports, and has not applied the next change;
//	                        n2@l2 is one of l2
//	peer n2 follows         the node has applied everything
//	peer n2 refuses $exp .. the node could not apply the resource; the rest says why
//	peer n2 has $pol        the node has applied everything, and enforces the policy
//	peer n2 leaves          the node is gone
//	server s2               another server on the same store
//	clock +720h             moves the clock of the servers and the store
//
// # Evidence
//
//	evidence n1 {"pairs":[{"counts":{"unchanged":"10"}}]}
//	                        the node n1 publishes this of $exp, in the place of what it
//	                        published before. Etags that are left out are the present ones, and
//	                        so is the digest of the list of items.
//
// # Loops and Go
//
//	for ID in A 1a -a       the statements up to end, with $ID set to each word
//	end
//	go                      the Go function of this row's ID, in rows, for what a
//	                        script would say badly: descriptors, races, crashes
package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// requirements are the IDs of the table, by group: A is AIP-236, B is AIP-128 and
// the AIPs behind it, L are long-running operations, E are errors; P are promotion,
// after RFC-042, and nodes; R are reports, and what a commit requires of them; C are acceptances; D are datasets.
var requirements = map[string]string{
	"A": `A-1 A-2 A-3 A-4 A-5 A-6 A-7 A-8 A-9 A-10 A-11 A-12 A-13 A-14 A-15
		A-20 A-21 A-22 A-23 A-24 A-25 A-26 A-27 A-28 A-29
		A-30 A-31 A-32 A-33 A-34 A-34b A-35 A-36 A-37 A-38 A-39 A-39b A-39c A-39d A-39e A-39f A-39g A-39h A-39i
		A-40 A-41 A-42 A-43 A-44 A-45 A-46 A-47 A-48 A-49
		A-50 A-51 A-52 A-53 A-54 A-55 A-56 A-57 A-58 A-59 A-60 A-61 A-62 A-63 A-64 A-65 A-66
		A-70 A-71 A-72 A-73 A-74 A-75 A-76 A-77 A-78 A-79`,
	"B": `B-1 B-2 B-3 B-4 B-5 B-6 B-7 B-8 B-9 B-10 B-11 B-12 B-13 B-14 B-15 B-16 B-20 B-21 B-22 B-23 B-24 B-25
		B-26 B-27 B-28 B-29 B-30 B-31 B-32 B-33 B-34 B-35 B-36 B-37 B-38 B-40 B-41 B-42 B-43 B-44 B-45 B-46 B-46b
		B-47 B-48 B-49 B-50 B-51 B-52 B-53 B-54 B-55 B-56 B-57 B-58 B-59 B-60 B-61 B-62 B-63 B-64 B-65 B-66 B-67
		B-68 B-69 B-70 B-71 B-72 B-73 B-74 B-75 B-76 B-77 B-78 B-79 B-80 B-81 B-82 B-85 B-86 B-87 B-88 B-89
		B-90 B-91 B-92 B-93 B-94 B-95 B-96 B-97 B-98 B-100 B-101 B-102 B-103 B-104
		B-110 B-111 B-111b B-112 B-113 B-114 B-115 B-120 B-121`,
	"L": `L-1 L-2 L-3 L-4 L-5 L-6 L-7 L-8 L-9 L-10 L-11 L-12 L-13 L-14 L-15 L-16 L-17 L-18 L-19 L-20`,
	"R": `R-1 R-2 R-3 R-4 R-5 R-6 R-7 R-8 R-9 R-10 R-11 R-12 R-13 R-14 R-15 R-16 R-17 R-18 R-19`,
	"C": `C-1 C-2 C-3 C-4 C-5 C-6 C-7 C-8 C-9 C-10 C-11 C-12 C-13 C-14 C-15 C-16 C-17 C-18 C-19`,
	"P": `P-1 P-2 P-3 P-4 P-5 P-6 P-7 P-8 P-9 P-10 P-11 P-12 P-13 P-14 P-15`,
	"D": `D-1 D-2 D-3 D-4 D-5 D-6 D-7 D-8 D-9 D-10 D-11 D-12 D-13 D-14 D-15 D-16`,
	"E": `E-1 E-2 E-3 E-4 E-5 E-6 E-7 E-8 E-9 E-10 E-11`,
}

const requirementFiles = "testdata/requirements"

// TestRequirements runs every row on every store.
func TestRequirements(t *testing.T) {
	t.Parallel()
	both := backends(t)
	for _, id := range rowIDs(t) {
		s, err := readScript(filepath.Join(requirementFiles, id+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			for _, b := range both {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					newRow(t, id, s, b).run()
				})
			}
		})
	}
}

// TestRequirementsComplete checks that each ID has its file and each file its ID.
func TestRequirementsComplete(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, ids := range requirements {
		for id := range strings.FieldsSeq(ids) {
			known[id] = true
		}
	}
	for _, id := range rowIDs(t) {
		if !known[id] {
			t.Errorf("%s.txtar proves no requirement of the table", id)
		}
		delete(known, id)
	}
	for id := range known {
		t.Errorf("the requirement %s has no %s.txtar", id, id)
	}
	for id := range rows {
		if _, err := os.Stat(filepath.Join(requirementFiles, id+".txtar")); err != nil {
			t.Errorf("the Go function of %s is not in the table: %v", id, err)
		}
	}
}

// rowIDs returns the IDs of the rows that have a file.
func rowIDs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(requirementFiles, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rows in %s: %v", requirementFiles, err)
	}
	var ids []string
	for _, f := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(f), ".txtar"))
	}
	return ids
}
