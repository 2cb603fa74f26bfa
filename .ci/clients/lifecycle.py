"""The whole life of a policy through a client that openapi-generator made for Python.

Usage: lifecycle.py URL, with the generated package understudy_client in PYTHONPATH.
"""

import json
import sys

import understudy_client as u

PLACE = ("default", "local")
POLICY = (*PLACE, "web")
EXPERIMENT = (*POLICY, "tighter")
NAME = "projects/default/locations/local/policies/web"
ALLOW = "package envoy.authz\n\nallow := true\n"

client = u.ApiClient(u.Configuration(host=sys.argv[1]))
policies = u.PolicyPreviewApi(client)
operations = u.OperationsApi(client)


def done(operation):
    """Waits for an operation and returns its response."""
    assert operation.name and operation.metadata, f"an operation lost its fields: {operation}"
    operation_id = operation.name.rsplit("/", 1)[1]
    waited = operations.wait_operation(*PLACE, operation_id, u.WaitOperationRequest(timeout="10s"))
    assert waited.done and waited.name == operation.name and waited.error is None, waited
    assert operations.get_operation(*PLACE, operation_id).done
    return waited.response.additional_properties


def fails(status, reason, call, *args, **kwargs):
    """Expects an error of the server, decoded."""
    try:
        call(*args, **kwargs)
    except u.ApiException as e:
        error = u.ErrorResponse.from_json(e.body).error
        assert e.status == status == error.code, e.body
        assert error.details[0].reason == reason, e.body
        return
    raise AssertionError(f"{call.__name__} did not fail with {reason}")


def rule_is_kept():
    rule = policies.get_policy(*POLICY).rules[0]
    assert rule.rule_id == "main" and rule.rego.path == "envoy/authz/allow", rule


# A policy: made, read, listed, and changed by what was read.
rule = u.PolicyRule(rule_id="main", rego=u.RegoFilter(path="envoy/authz/allow"))
body = u.Policy(display_name="first", rules=[rule], modules={"a.rego": ALLOW}, data={"team": {"size": 3}}, annotations={"team": "shop"})
made = done(policies.create_policy(*PLACE, "web", body))
assert made["displayName"] == "first", made
rule_is_kept()
policy = policies.get_policy(*POLICY)
assert policy.data == {"team": {"size": 3}} and policy.uid and policy.create_time, policy
policy.display_name = "second"
done(policies.update_policy(*POLICY, policy))
rule_is_kept()
done(policies.update_policy(*POLICY, u.Policy(display_name="third"), update_mask="displayName"))
rule_is_kept()
page = policies.list_policies(*PLACE, filter='display_name = "third"', page_size=1, order_by="create_time desc")
assert [p.name for p in page.policies] == [NAME], page

# An experiment: made of the live policy, changed in part, previewed, committed.
candidate = policies.get_policy(*POLICY)
candidate.display_name = "committed"
done(policies.create_policy_experiment(*POLICY, "tighter", u.PolicyExperiment(policy=candidate)))
done(policies.update_policy_experiment(*EXPERIMENT, u.PolicyExperiment(display_name="try"), update_mask="displayName"))
done(policies.start_preview_policy_experiment(*EXPERIMENT))
experiment = policies.get_policy_experiment(*EXPERIMENT)
assert experiment.preview_metadata.state == u.PolicyPreviewMetadataState.ACTIVE, experiment
assert experiment.policy.rules[0].rule_id == "main", experiment
done(policies.stop_preview_policy_experiment(*EXPERIMENT))
done(policies.start_preview_policy_experiment(*EXPERIMENT, u.StartPreviewPolicyExperimentRequest(etag=experiment.etag)))
assert len(policies.list_policy_experiments(*POLICY, filter="preview_metadata.state = ACTIVE").policy_experiments) == 1
fails(409, "ETAG_MISMATCH", policies.commit_policy_experiment, *EXPERIMENT, u.CommitPolicyExperimentRequest(etag='W/"x"'))
commit = policies.commit_policy_experiment(*EXPERIMENT, u.CommitPolicyExperimentRequest(etag=experiment.etag))
assert commit.metadata.additional_properties["revision"].startswith(NAME + "/revisions/"), commit
done(commit)
assert policies.get_policy(*POLICY).display_name == "committed"
rule_is_kept()
fails(404, "RESOURCE_NOT_FOUND", policies.get_policy_experiment, *EXPERIMENT)

# What is around it: revisions, operations, the node, the configuration, errors, the end.
revisions = policies.list_policy_revisions(*POLICY, order_by="create_time").policy_revisions
assert [r.snapshot.display_name for r in revisions] == ["first", "second", "third", "committed"], revisions
assert len(operations.list_operations(*PLACE, filter="metadata.verb = commit").operations) == 1
assert policies.list_nodes(*PLACE).nodes[0].heartbeat_time
policies.update_config(*PLACE, u.Config(next_location="projects/default/locations/prod"), update_mask="nextLocation")
assert policies.get_config(*PLACE).next_location == "projects/default/locations/prod"
fails(409, "RESOURCE_ALREADY_EXISTS", policies.create_policy, *PLACE, "web", u.Policy())
fails(400, "INVALID_POLICY", policies.update_policy, *POLICY, u.Policy(modules={"a.rego": "no rego"}))
fails(400, "INVALID_FILTER", policies.list_policies, *PLACE, filter="nope = 1")
done(policies.delete_policy(*POLICY))
done(policies.undelete_policy(*POLICY))
first = revisions[0].name.rsplit("/", 1)[1]
done(policies.rollback_policy(*POLICY, first))
assert policies.get_policy(*POLICY).display_name == "first"
done(policies.delete_policy(*POLICY, etag=policies.get_policy(*POLICY).etag))
print(json.dumps({"python": "the whole lifecycle passed"}))
