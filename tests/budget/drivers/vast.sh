#!/usr/bin/env bash
# The driver of Vast.ai against a mock of Vast.ai's documentation.
#   vast.sh BUILD SOURCES
set -euo pipefail

vendor=vast
url_name=VAST_URL
key_name=VAST_API_KEY
. "$(dirname "$0")/common.sh"
export VAST_API_KEY=$key

echo "== an instance from its creation to its end"
order '{name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", instance_type: "RTX_4090", disk_gb: 40,
        ssh_public_key: "ssh-ed25519 AAAA me@example.org", image: "org/image:1"}'
drive 0 create
out_is '. == {instance_id: "301", name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", status: "starting", price_usd: "0.310000"}'
body_is PUT '.label == "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`"' '.image == "org/image:1"' '.disk == 40' \
    '.runtype == "ssh_direct"' '.target_state == "running"' '.cancel_unavail' 'has("price") | not'
body_is POST '. == {ssh_key: "ssh-ed25519 AAAA me@example.org"}'
[ "$(requested "PUT /api/v0/asks/108/")" -eq 1 ] || fail "it has not taken the cheapest that may be taken"
grep "^POST /api/v0/bundles/" requests | sed 's/^[^{]*//' >search
jq -e '.type == "ondemand" and .verified == {eq: true} and .rentable == {eq: true} and .num_gpus == {eq: 1}
    and .gpu_name == {eq: "RTX 4090"} and .dph_total == {lte: 9.99} and .allocated_storage == 40
    and .order == [["dph_total", "asc"]] and .duration.gte > 2e9 and .duration.gte < 3e9' search >/dev/null || fail "the search: $(cat search)"
order '{seconds_left: 1234}' # whatever this computer's clock says
drive 0 check
grep "^POST /api/v0/bundles/" requests | tail -n 1 | sed 's/^[^{]*//' >search
jq -e '.duration.gte == 1234' search >/dev/null || fail "the search: $(cat search)"
order '{}'
drive 0 describe 301
out_is '.status == "starting"' 'has("host") | not'
drive 0 describe 301
out_is '. == {instance_id: "301", name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", status: "running",
              host: "203.0.113.9", port: 20022, user: "root", price_usd: "0.310000"}'
drive 0 list
out_is '.instances | length == 301' '.instances | map(.instance_id) | unique | length == 301' \
    '.instances[0].name == "other-1"' '.instances[300].name == "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`"'
drive 0 delete 301
out_is_empty
drive 0 delete 301
drive 0 describe 301
out_is '. == {instance_id: "301", name: "", status: "not-found"}'
with all=404 drive 0 delete 1
with all=404 drive 0 describe 1
out_is '.status == "not-found"'
drive 1 describe pod-1
err_has "Vast.ai's are numbers"

echo "== whose account it is"
drive 0 account
out_is '. == {vendor_account: "123"}'

echo "== what Vast.ai shows"
for state in null:starting '"created"':starting '"loading"':starting '"rebooting"':starting '"new"':starting '"stopped"':stopped \
    '"frozen"':stopped '"exited"':stopped '"unknown"':stopped '"offline"':stopped; do
    change 2 "{\"actual_status\": ${state%:*}}"
    drive 0 describe 2
    out_is ".status == \"${state#*:}\"" 'has("host") | not'
done
change 2 '{"actual_status": "running"}'
drive 0 describe 2 # no port of its own: by the proxy
out_is '.status == "running" and .host == "ssh5.vast.ai" and .port == 10882'
change 2 '{"ssh_host": null, "label": null}'
drive 0 describe 2
out_is '.status == "starting" and .name == ""'
change 2 '{"intended_status": "stopped"}'
drive 0 describe 2
out_is '.status == "stopped"'
for price in 0.1:0.100000 0.30000000000000004:0.300000 0.34000000357627869:0.340000 0.3400011:0.340002 12.5:12.500000 1e-7:0.000001; do
    change 3 "{\"dph_total\": ${price%:*}}"
    drive 0 describe 3
    out_is ".price_usd == \"${price#*:}\""
done
for price in 0 -1 null '"free"' 1e99; do
    change 3 "{\"dph_total\": $price}"
    drive 0 describe 3
    out_is 'has("price_usd") | not'
done
change 4 '{"id": "4"}'
drive 0 list # rent finds out that it is none of its own
out_is '.instances | length == 300' '.instances[3] == {instance_id: "4", name: "other-4"}'
drive 1 describe 4
change 4 '{"id": 4}'

echo "== what may be created"
order '{instance_type: "RTX 4090", max_price_usd: "0.31"}'
drive 0 create
body_is PUT '.image == "vastai/base-image:@vastai-automatic-tag"' '.disk == 40'
[ "$(requested "POST /api/v0/instances/302/ssh/")" -eq 0 ] || fail "there was no key to attach"
order '{instance_type: "RTX 4090", disk_gb: 80, max_price_usd: "0.32", tier: "secure"}'
drive 0 create
body_is POST '.datacenter == {eq: true}'
order '{max_price_usd: "0.17"}'
drive 0 create
order '{instance_type: "RTX 4090", gpus: 2}'
drive 0 create
[ "$(requested "PUT /api/v0/asks/106/")" -eq 1 ] && [ "$(requested "PUT /api/v0/asks/105/")" -eq 1 ] || fail "any, or 2 GPUs"
made=$(requested "PUT [^ ]*")
drive 0 check
out_is_empty
order '{instance_type: "RTX 4090", max_price_usd: "0.309999"}'
drive 3 check
drive 3 create
err_has 'no offer of 1 x RTX 4090 with 40 GB of disk costs $0.309999 per hour or less'
order '{instance_type: "RTX 4090", disk_gb: 80, max_price_usd: "0.31"}'
drive 3 create
order '{instance_type: "H100"}'
drive 3 create
order '{until: "tomorrow"}'
drive 3 create
order '{}'
for told in 401 429 500 garbage wrong empty drop; do
    with all=$told drive 3 create # before the request that creates
done
(VAST_API_KEY=another drive 3 create && err_has "Invalid user key" "Look at VAST_API_KEY")
[ "$(requested "PUT [^ ]*")" -eq "$made" ] || fail "something was created that may not be"
for told in 400 401 403 404 410 false; do
    with create=$told drive 3 create
done
for told in 408 429 500 502 garbage wrong empty drop; do
    made=$(requested "PUT [^ ]*")
    with create=$told drive 1 create
    [ "$(requested "PUT [^ ]*")" -eq $((made + 1)) ] || fail "it was not sent just once: $told"
done
order '{ssh_public_key: "ssh-ed25519 AAAA me@example.org"}'
for told in 400 500 false drop; do # the instance is there, and nobody could reach it
    with attach=$told drive 1 create
done
drive 0 list
out_is '.instances | map(select(.name == "rf-jti-1")) | length == 9'

echo "== a vendor that fails, calls that are wrong, and the key"
failing_vendor 5
for verb in describe delete; do
    with all=key404 drive 1 "$verb" 5
    err_has "Look at VAST_API_KEY"
done
with all=false drive 1 delete 5
with all=false drive 1 describe 5
with all=false drive 1 list
bad_calls
key_is_unseen 6
echo passed
