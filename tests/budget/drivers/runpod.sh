#!/usr/bin/env bash
# The driver of RunPod against a mock of RunPod's documentation.
#   runpod.sh BUILD SOURCES
set -euo pipefail

vendor=runpod
url_name=RUNPOD_URL
key_name=RUNPOD_API_KEY
. "$(dirname "$0")/common.sh"
export RUNPOD_API_KEY=$key

echo "== a pod from its creation to its end"
order '{name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", instance_type: "NVIDIA A40", gpus: 2,
        ssh_public_key: "ssh-ed25519 AAAA me@example.org", disk_gb: 40, image: "org/image:1"}'
drive 0 create
out_is '.instance_id == "pod301"' '.status == "starting"' '.name == "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`"' \
    '.price_usd == "0.885556"' 'has("host") | not'
body_is POST '.name == "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`"' '.image == "org/image:1"' '.cloud == "SECURE"' \
    '.gpu == {id: "NVIDIA A40", count: 2}' '.disk == 40' '.ports == ["22/tcp"]' '.startSsh' \
    '.env == {PUBLIC_KEY: "ssh-ed25519 AAAA me@example.org"}'
drive 0 describe pod301
out_is '.status == "starting"'
drive 0 describe pod301
out_is '. == {instance_id: "pod301", name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", status: "running",
              host: "203.0.113.7", port: 34446, user: "root", price_usd: "0.885556"}'
drive 0 list
out_is '.instances | length == 301' '.instances | map(.instance_id) | unique | length == 301' \
    '.instances[0].name == "other-1"' '.instances[300].name == "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`"'
drive 0 delete pod301
out_is_empty
drive 0 delete pod301
drive 0 describe pod301
out_is '. == {instance_id: "pod301", name: "", status: "not-found"}'
with all=404 drive 0 delete pod1
with all=404 drive 0 describe pod1
out_is '.status == "not-found"'

echo "== whose account it is"
drive 0 account
out_is '. == {vendor_account: "user_2abc"}'

echo "== what RunPod shows"
for state in PROVISIONING:starting STARTING:starting RUNNING:starting EXITED:stopped ERROR:stopped TERMINATED:terminated NEW:starting; do
    change 2 "{\"status\": \"${state%:*}\"}"
    drive 0 describe pod2
    out_is ".status == \"${state#*:}\"" 'has("host") | not'
done
for price in 0.1:0.105556 0.3:0.305556 0.34000000357627869:0.345556 0.3400011:0.345557 12.5:12.505556 0.0000001:0.005556; do
    change 3 "{\"cost\": ${price%:*}}"
    drive 0 describe pod3
    out_is ".price_usd == \"${price#*:}\""
done
change 3 '{"cost": 1e-7, "disk": 0}'
drive 0 describe pod3
out_is '.price_usd == "0.000001"'
change 3 '{"cost": 0.34000000357627869, "disk": 0}'
drive 0 describe pod3
out_is '.price_usd == "0.340000"'
for price in 0 -1 null '"free"' 1e99; do
    change 3 "{\"cost\": $price}"
    drive 0 describe pod3
    out_is 'has("price_usd") | not'
done
change 4 '{"id": "pod/4"}'
drive 0 list # rent finds out that it is none of its own
out_is '.instances | length == 300' '.instances[3] == {instance_id: "pod/4", name: "other-4"}'
drive 1 describe pod4
change 4 '{"id": "pod4", "status": null}'
drive 0 list
out_is '.instances[3] == {instance_id: "pod4", name: "other-4"}'

echo "== what may be created"
order '{instance_type: "A40", gpus: 2, max_price_usd: "0.885556"}'
drive 0 create
body_is POST '.gpu.id == "NVIDIA A40"' '.image == "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"' 'has("env") | not'
order '{instance_type: "A40", gpus: 2, tier: "community", max_price_usd: "0.685556"}'
drive 0 create
body_is POST '.cloud == "COMMUNITY"'
order '{max_price_usd: "0.50"}' # any: an A5000 is out of stock
drive 0 create
body_is POST '.gpu.id == "NVIDIA L4"'
made=$(requested "POST /v2/pods")
drive 0 check
out_is_empty
order '{instance_type: "A40", gpus: 2, max_price_usd: "0.885555"}'
drive 3 check
drive 3 create
err_has '2 x A40 on the secure cloud costs $0.885556 per hour with its disk, above the $0.885555 that are allowed'
order '{instance_type: "A5000"}'
drive 3 create
err_has 'there is no 1 x A5000'
order '{instance_type: "RTX A5000"}'
drive 3 create
err_has 'out of stock'
order '{instance_type: "L4", tier: "community"}'
drive 3 create
err_has 'there is no 1 x L4 on the community cloud'
for told in 401 429 500 garbage wrong empty drop; do
    with all=$told drive 3 create # before the request that creates
done
[ "$(requested "POST /v2/pods")" -eq "$made" ] || fail "something was created that may not be"
order '{gpus: 9}'
drive 3 create
err_has "There are no longer any instances available"
order '{}'
for told in 400 401 402 403 404 422; do
    with create=$told drive 3 create
done
for told in 408 429 500 502 garbage wrong empty drop; do
    made=$(requested "POST /v2/pods")
    with create=$told drive 1 create
    [ "$(requested "POST /v2/pods")" -eq $((made + 1)) ] || fail "it was not sent just once: $told"
done
drive 0 list # where `drop` has made one, which its name finds
out_is '.instances | map(select(.name == "rf-jti-1")) | length == 4'

echo "== the bill"
drive 0 bill 2024-11-20T00:00:00Z 2024-11-21T00:00:00Z
out_is '. == {records: [{podId: "pod1", time: "2024-11-20T00:00:00Z", amount: 0.44}, {podId: "pod1", time: "2024-11-20T01:00:00Z", amount: 0.1},
    {podId: "pod2", time: "2024-11-20T00:00:00Z", amount: 0.2}]}'
drive 1 bill 2025-11-20T00:00:00Z 2025-11-21T00:00:00Z
out_is_empty
err_has "the bill is not complete"
for told in 401 403 404 429 500 garbage wrong empty drop; do
    with all=$told drive 1 bill 2024-11-20T00:00:00Z 2024-11-21T00:00:00Z
    out_is_empty
done
for span in "2024-11-20 2024-11-21" "2024-11-20T00:30:00Z 2024-11-21T00:00:00Z" "2024-11-21T00:00:00Z 2024-11-21T00:00:00Z" \
    "2024-11-21T00:00:00Z 2024-11-20T00:00:00Z" "2024-11-21T00:00:00Z 2999-11-20T00:00:00Z" "2024-1?-20T00:00:00Z 2024-11-21T00:00:00Z"; do
    # shellcheck disable=SC2086
    drive 1 bill $span
    err_has "whole hours that are over"
done
drive 1 bill 2024-11-20T00:00:00Z

echo "== a vendor that fails, calls that are wrong, and the key"
failing_vendor pod5
bad_calls
key_is_unseen pod6
echo passed
