SELECT
    method,
    path,
    countIf(policy_result = 'ALLOW') AS allowed,
    countIf(difference = 'NEWLY_DENIED') AS newly_denied,
    if(allowed = 0, 0, round(100 * newly_denied / allowed, 1)) AS newly_denied_percent,
    countIf(policy_result != 'ALLOW' AND difference != 'LIVE_FAILED') AS denied,
    countIf(difference = 'NEWLY_ALLOWED') AS newly_allowed,
    if(denied = 0, 0, round(100 * newly_allowed / denied, 1)) AS newly_allowed_percent
FROM preview
WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter' AND time > now() - 86400
GROUP BY method, path
HAVING newly_denied + newly_allowed > 0
ORDER BY newly_allowed DESC, newly_denied DESC;
