#!/usr/bin/env bash
# The driver of Lambda Cloud against a mock of Lambda's documentation.
#   lambda.sh BUILD SOURCES
set -euo pipefail

vendor=lambda
url_name=LAMBDA_URL
key_name=LAMBDA_API_KEY
below=/lambda
. "$(dirname "$0")/common.sh"
export LAMBDA_API_KEY=$key
launches() { requested "POST /lambda/api/v1/instance-operations/launch"; }

echo "== an instance from its creation to its end"
order '{name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", instance_type: "gpu_1x_a10", max_price_usd: "0.75",
        ssh_public_key: "ssh-ed25519 AAAA me@example.org", disk_gb: 1400}'
drive 0 create
out_is '. == {instance_id: "lam301"}'
body_is POST '. == {region_name: "us-west-1", instance_type_name: "gpu_1x_a10", ssh_key_names: ["mine"],
    name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", user_data: "#cloud-config\n{\"disable_root\": false}\n"}'
drive 0 describe lam301
out_is '.status == "starting"' 'has("host") | not'
drive 0 describe lam301
out_is '. == {instance_id: "lam301", name: "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`", status: "running",
              host: "203.0.113.5", port: 22, user: "root", price_usd: "0.750000"}'
drive 0 list
out_is '.instances | length == 301' '.instances[0].name == "other-1"' '.instances[300].name == "rf-\"odd\\name\" \u00e4\u0001%s$(id)`id`"'
drive 0 delete lam301
out_is_empty
drive 0 delete lam301
drive 0 describe lam301
out_is '. == {instance_id: "lam301", name: "", status: "not-found"}'
with all=404 drive 0 delete lam1
with all=404 drive 0 describe lam1
out_is '.status == "not-found"'

echo "== whose account it is: Lambda does not say it, so it is the key's"
drive 0 account
cp out first
out_is '.vendor_account | test("^key-[0-9a-f]{32}$")'
drive 0 account
cmp -s out first || fail "the same key has two accounts"
(LAMBDA_API_KEY=another drive 0 account)
! cmp -s out first || fail "two keys have one account"
! grep -qF -- "$key" first || fail "the key is shown"

echo "== what Lambda shows"
for state in booting:starting active:starting unhealthy:stopped preempted:stopped terminating:stopped terminated:terminated new:starting; do
    change 2 "{\"status\": \"${state%:*}\"}"
    drive 0 describe lam2
    out_is ".status == \"${state#*:}\"" 'has("host") | not'
done
for cents in 0 -1 null '"75"'; do
    change 3 "{\"instance_type\": {\"price_cents_per_hour\": $cents}}"
    drive 0 describe lam3
    out_is 'has("price_usd") | not'
done
change 4 '{"status": null}'
drive 0 list # rent finds out that it is none of its own
out_is '.instances | length == 300' '.instances[3] == {instance_id: "lam4", name: "other-4"}'
drive 1 describe lam4
change 4 '{"status": "active"}'

echo "== what may be created"
order '{gpus: 1, max_price_usd: "0.75"}' # any: an A6000 is out of stock
drive 0 create
body_is POST '.instance_type_name == "gpu_1x_a10"' '.ssh_key_names == ["other"]' 'has("image") | not'
order '{gpus: 2, max_price_usd: "1.60", image: "lambda-stack-24-04", tier: "secure"}'
drive 0 create
body_is POST '.instance_type_name == "gpu_2x_a6000"' '.region_name == "us-south-1"' '.image == {family: "lambda-stack-24-04"}'
order '{image: "43336648-096d-4cba-9aa2-f9bb7727639d"}'
drive 0 create
body_is POST '.image == {id: "43336648-096d-4cba-9aa2-f9bb7727639d"}'
made=$(launches)
drive 0 check
out_is_empty
refused() {
    order "$1"
    drive 3 check
    err_has "$2"
    drive 3 create
}
refused '{max_price_usd: "0.749999"}' '1 x any costs $0.750000 per hour, above the $0.749999 that are allowed'
refused '{instance_type: "gpu_1x_b200"}' "there is no 1 x gpu_1x_b200"
refused '{instance_type: "gpu_1x_a10", gpus: 2}' "there is no 2 x gpu_1x_a10"
refused '{instance_type: "gpu_1x_a6000"}' "out of stock in every region"
refused '{instance_type: "gpu_1x_a10", disk_gb: 1401}' "has no disk of 1401 GB"
refused '{ssh_public_key: "ssh-ed25519 CCCC me"}' "has not got this ssh key"
order '{}'
for told in 401 429 500 garbage wrong empty drop; do
    with all=$told drive 3 create # before the request that creates
done
[ "$(launches)" -eq "$made" ] || fail "something was created that may not be"
for told in 400 401 403 404; do
    with create=$told drive 3 create
done
err_has "HTTP 404: as it was told; Try again shortly"
for told in 408 429 500 502 garbage wrong empty drop; do
    made=$(launches)
    with create=$told drive 1 create
    [ "$(launches)" -eq $((made + 1)) ] || fail "it was not sent just once: $told"
done
drive 0 list # where `drop` has made one, which its name finds
out_is '.instances | map(select(.name == "rf-jti-1")) | length == 4'

echo "== a vendor that fails, calls that are wrong, and the key"
failing_vendor lam5
bad_calls
drive 1 bill 2024-11-20T00:00:00Z 2024-11-21T00:00:00Z
err_has "fetches no bill"
key_is_unseen lam6
echo passed
