// The whole life of a policy through a client that openapi-generator made for
// TypeScript (typescript-fetch). Usage: node lifecycle.js URL, compiled next to the
// generated folder client.
import * as assert from "node:assert/strict";
import * as u from "./client";

const place = { project: "default", location: "local" };
const web = { ...place, policy: "web" };
const tighter = { ...web, experiment: "tighter" };
const name = "projects/default/locations/local/policies/web";
const configuration = new u.Configuration({ basePath: process.argv[2] });
const policies = new u.PolicyPreviewApi(configuration);
const operations = new u.OperationsApi(configuration);

/** Waits for an operation and returns its response. */
async function done(pending: Promise<u.Operation>): Promise<u.PackedMessage> {
  const made = await pending;
  assert.ok(made.name && made.metadata, `an operation lost its fields: ${JSON.stringify(made)}`);
  const operation = made.name.split("/").pop()!;
  const waited = await operations.waitOperation({ ...place, operation, body: { timeout: "10s" } });
  assert.equal(waited.name, made.name);
  assert.ok(waited.done && waited.response && !waited.error, JSON.stringify(waited));
  return waited.response;
}

/** Expects an error of the server, decoded. */
async function fails(status: number, reason: string, call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (e) {
    assert.ok(e instanceof u.ResponseError, String(e));
    const error = u.ErrorResponseFromJSON(await e.response.json()).error;
    assert.equal(e.response.status, status);
    assert.equal(error?.code, status);
    assert.equal(error?.details?.[0]?.reason, reason);
    return;
  }
  assert.fail(`a call did not fail with ${reason}`);
}

async function ruleIsKept(): Promise<void> {
  const rule = (await policies.getPolicy(web)).rules?.[0];
  assert.equal(rule?.ruleId, "main");
  assert.equal(rule?.rego?.path, "envoy/authz/allow");
}

/** A policy: made, read, listed, and changed by what was read. */
async function policy(): Promise<void> {
  const body: u.Policy = {
    displayName: "first", rules: [{ ruleId: "main", rego: { path: "envoy/authz/allow" } }],
    modules: { "a.rego": "package envoy.authz\n\nallow := true\n" }, data: { team: { size: 3 } }, annotations: { team: "shop" },
  };
  const made = await done(policies.createPolicy({ ...place, policyId: "web", body }));
  assert.equal(made.displayName, "first");
  await ruleIsKept();
  const read = await policies.getPolicy(web);
  assert.deepEqual(read.data, { team: { size: 3 } });
  await done(policies.updatePolicy({ ...web, body: { ...read, displayName: "second" } }));
  await ruleIsKept();
  await done(policies.updatePolicy({ ...web, body: { displayName: "third" }, updateMask: "displayName" }));
  await ruleIsKept();
  const page = await policies.listPolicies({ ...place, filter: 'display_name = "third"', pageSize: 1, orderBy: "create_time desc" });
  assert.deepEqual(page.policies?.map((p) => p.name), [name]);
}

/** An experiment: made of the live policy, changed in part, previewed, committed. */
async function experiment(): Promise<void> {
  const candidate = { ...(await policies.getPolicy(web)), displayName: "committed" };
  await done(policies.createPolicyExperiment({ ...web, policyExperimentId: "tighter", body: { policy: candidate } }));
  await done(policies.updatePolicyExperiment({ ...tighter, body: { displayName: "try" }, updateMask: "displayName" }));
  await done(policies.startPreviewPolicyExperiment(tighter));
  const read = await policies.getPolicyExperiment(tighter);
  assert.equal(read.previewMetadata?.state, u.PolicyPreviewMetadataState.Active);
  assert.equal(read.policy?.rules?.[0]?.ruleId, "main");
  await done(policies.stopPreviewPolicyExperiment(tighter));
  await done(policies.startPreviewPolicyExperiment({ ...tighter, body: { etag: read.etag } }));
  const active = await policies.listPolicyExperiments({ ...web, filter: "preview_metadata.state = ACTIVE" });
  assert.equal(active.policyExperiments?.length, 1);
  const commit = (etag: string) => policies.commitPolicyExperiment({ ...tighter, body: { etag } });
  await fails(409, "ETAG_MISMATCH", () => commit('W/"x"'));
  const committed = commit(read.etag!);
  assert.ok(String((await committed).metadata?.revision).startsWith(`${name}/revisions/`));
  await done(committed);
  assert.equal((await policies.getPolicy(web)).displayName, "committed");
  await ruleIsKept();
  await fails(404, "RESOURCE_NOT_FOUND", () => policies.getPolicyExperiment(tighter));
}

/** What is around it: revisions, operations, the node, the configuration, errors, the end. */
async function around(): Promise<void> {
  const revisions = (await policies.listPolicyRevisions({ ...web, orderBy: "create_time" })).policyRevisions ?? [];
  assert.deepEqual(revisions.map((r) => r.snapshot?.displayName), ["first", "second", "third", "committed"]);
  const commits = await operations.listOperations({ ...place, filter: "metadata.verb = commit" });
  assert.equal(commits.operations?.length, 1);
  assert.ok((await policies.listNodes(place)).nodes?.[0]?.heartbeatTime instanceof Date);
  await policies.updateConfig({ ...place, body: { nextLocation: "projects/default/locations/prod" }, updateMask: "nextLocation" });
  assert.equal((await policies.getConfig(place)).nextLocation, "projects/default/locations/prod");
  await fails(409, "RESOURCE_ALREADY_EXISTS", () => policies.createPolicy({ ...place, policyId: "web", body: {} }));
  await fails(400, "INVALID_POLICY", () => policies.updatePolicy({ ...web, body: { modules: { "a.rego": "no rego" } } }));
  await fails(400, "INVALID_FILTER", () => policies.listPolicies({ ...place, filter: "nope = 1" }));
  await done(policies.deletePolicy(web));
  await done(policies.undeletePolicy(web));
  await done(policies.rollbackPolicy({ ...web, revision: revisions[0].name!.split("/").pop()! }));
  const last = await policies.getPolicy(web);
  assert.equal(last.displayName, "first");
  await done(policies.deletePolicy({ ...web, etag: last.etag }));
}

async function main(): Promise<void> {
  await policy();
  await experiment();
  await around();
  console.log(JSON.stringify({ typescript: "the whole lifecycle passed" }));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
