SELECT
    principal,
    tenant,
    count() AS total,
    countIf(difference = 'NEWLY_DENIED') AS newly_denied,
    countIf(difference = 'NEWLY_ALLOWED') AS newly_allowed,
    countIf(difference = 'RESPONSE_CHANGED') AS response_changed,
    countIf(difference IN ('FAILED', 'LIVE_FAILED')) AS failed
FROM preview
WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter' AND time > now() - 86400
GROUP BY principal, tenant
HAVING total > countIf(difference = 'UNCHANGED')
ORDER BY total - countIf(difference = 'UNCHANGED') DESC;
