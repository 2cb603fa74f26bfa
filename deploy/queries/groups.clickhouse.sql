SELECT difference, method, path, rule, reason, changed, n, callers, total, round(100 * n / total, 1) AS percent
FROM (
    SELECT difference, method, path, rule, reason, changed, count() AS n, uniq(principal) AS callers
    FROM preview
    WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter' AND difference != 'UNCHANGED' AND time > now() - 86400
    GROUP BY difference, method, path, rule, reason, changed
) AS differing
INNER JOIN (
    SELECT method, path, count() AS total
    FROM preview
    WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter' AND time > now() - 86400
    GROUP BY method, path
) AS requests USING (method, path)
ORDER BY n DESC;
