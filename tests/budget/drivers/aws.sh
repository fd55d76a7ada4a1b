#!/usr/bin/env bash
# The driver of EC2 with an aws that is a stub: it keeps its instances in files, one for each region, and notes how it was
# called. aws_moto.sh is the same with the real one.
#   aws.sh BUILD SOURCES
set -euo pipefail

driver=$(cd "$1" && pwd)/share/ringfence/drivers/aws
command -v jq >/dev/null || { echo "skipped: jq is not installed" && exit 77; }
. "$2/tests/support/service.sh"
: >out
: >err

# A file fault-COMMAND has the code of an error; garbage-COMMAND an answer that is none.
mkdir stubs
cat >stubs/aws <<'SH2'
#!/bin/sh
cd "$STUB" || exit
[ "$1" != configure ] || { cat profile 2>/dev/null; exit; }
region=$2
shift 8 # --region R --output json --cli-connect-timeout N --cli-read-timeout N
printf '%s %s\n' "$region" "$*" >>calls
error() {
    printf '\nAn error occurred (%s) when calling the operation: as it was told\n' "$1" >&2
    exit 254
}
command=$2
[ "$3" != --dry-run ] || command=dry-run
[ ! -e "fault-$command" ] || error "$(cat "fault-$command")"
[ ! -e "garbage-$command" ] || { cat "garbage-$command"; exit 0; }
[ -e "instances-$region" ] || echo '[]' >"instances-$region"
case $command in
describe-instance-types) cat types ;;
get-parameter) echo '{"Parameter": {"Value": "ami-0dl"}}' ;;
describe-images) cat images ;;
get-products) case $* in *gp3*) cat disk-price ;; *) cat machine-price ;; esac ;;
dry-run)
    printf '%s' "$5" >request
    error DryRunOperation
    ;;
run-instances)
    printf '%s' "$4" | jq -c --slurpfile had "instances-$region" '$had[0] + [{InstanceId: "i-0\($had[0] | length)",
        State: {Name: "running"}, PublicIpAddress: "203.0.113.8", Tags: .TagSpecifications[0].Tags}]' >new
    mv new "instances-$region"
    [ ! -e lost ] || { echo "Connect timeout on endpoint" >&2; exit 255; }
    jq -c '{Instances: [.[-1]]}' "instances-$region"
    ;;
describe-instances)
    case $3 in
    --query) cat "instances-$region" ;;
    *) jq -ec --arg id "$4" 'map(select(.InstanceId == $id)) | select(. != []) | {Reservations: [{Instances: .}]}' \
        "instances-$region" || error InvalidInstanceID.NotFound ;;
    esac
    ;;
get-caller-identity) echo '{"UserId": "AIDA", "Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/me"}' ;;
terminate-instances)
    jq -c --arg id "$4" 'map(if .InstanceId == $id then .State.Name = "terminated" else . end)' "instances-$region" >new
    mv new "instances-$region"
    echo '{"TerminatingInstances": []}'
    ;;
*) error UnknownCommand ;;
esac
SH2
chmod +x stubs/aws
mkdir vendor
export STUB=$scratch/vendor PATH=$scratch/stubs:$PATH AWS_REGION=us-east-1 RINGFENCE_AWS_SECURITY_GROUP=sg-0ab
unset AWS_DEFAULT_REGION RINGFENCE_AWS_SUBNET
types() { # COUNT: of GPUs
    jq -cn "{InstanceTypes: [{ProcessorInfo: {SupportedArchitectures: [\"i386\", \"x86_64\"]}}
        + if $1 > 0 then {GpuInfo: {Gpus: [{Name: \"A10G\", Count: $1}]}} else {} end]}" >vendor/types
}
product() { # UNIT USD...
    local unit=$1 usd
    shift
    for usd; do jq -cn "{terms: {OnDemand: {a: {priceDimensions: {b: {unit: \"$unit\", pricePerUnit: {USD: \"$usd\"}}}}}}} | tojson"; done |
        jq -cs '{PriceList: .}'
}
types 1
echo '{"Images": [{"ImageId": "ami-0dl", "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 75}},
    {"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"}]}]}' >vendor/images
product Hrs 0.0000000000 1.0060000000 0.9000000000 >vendor/machine-price
product GB-Mo 0.0800000000 >vendor/disk-price

# drive CODE ARGUMENTS...: calls the driver, whose input is the file order. A failure says why on one line.
drive() {
    local expected=$1 got=0
    shift
    "$driver" "$@" >out 2>err <order || got=$?
    [ "$got" -eq "$expected" ] || fail "exit $got, not $expected: $*"
    [ "$got" -eq 0 ] || grep -q "^aws: .....*" err || fail "it does not say why: $*"
}
is() { [ "$(jq -cS . out)" = "$(jq -cS . <<<"$1")" ] || fail "not $1"; }
called() { grep -qF -- "$1" vendor/calls || fail "aws was not called with $1"; }
made() { grep -c "run-instances --cli" vendor/calls || true; }
request_is() { for what; do jq -e "$what" vendor/request >/dev/null || { cat vendor/request >out && fail "the request: $what"; }; done; }
order() {
    jq -n "{name: \"rf-5f0c-1\", label: \"lab/run1\", instance_type: \"g5.xlarge\", gpus: 1, max_price_usd: \"1.02\",
        until: \"2099-01-01T00:00:00Z\", ssh_public_key: \"ssh-ed25519 AAAA me; \\\"x\\\"\"} + $1" >order
}
# refused ORDER WORDS: certainly nothing was created.
refused() {
    order "$1"
    drive 3 check
    err_has "$2"
    drive 3 create
}
# with COMMAND ERROR drive ...
with() {
    echo "$2" >"vendor/fault-$1"
    local command=$1
    shift 2
    "$@"
    rm "vendor/fault-$command"
}

echo "== an instance from its creation to its end"
order '{}'
drive 0 check
[ ! -s out ] || fail "check answers"
[ "$(made)" -eq 0 ] || fail "check has made one"
called 'us-east-1 ssm get-parameter --name /aws/service/deeplearning/ami/x86_64/base-'
called 'us-east-1 pricing get-products --service-code AmazonEC2 --filters [{"Type":"TERM_MATCH","Field":"regionCode","Value":"us-east-1"},{"Type":"TERM_MATCH","Field":"instanceType","Value":"g5.xlarge"}'
request_is '.ImageId == "ami-0dl"' '.InstanceType == "g5.xlarge"' '.MinCount == 1 and .MaxCount == 1' '.ClientToken == "rf-5f0c-1"' \
    '.InstanceInitiatedShutdownBehavior == "terminate"' '.MetadataOptions.HttpTokens == "required"' \
    '.NetworkInterfaces[0] | .Groups == ["sg-0ab"] and .AssociatePublicIpAddress and (has("SubnetId") | not)' \
    '.BlockDeviceMappings == [{DeviceName: "/dev/sda1", Ebs: {VolumeSize: 75, VolumeType: "gp3", DeleteOnTermination: true}}]' \
    '.TagSpecifications | map(.ResourceType) == ["instance", "volume", "network-interface"]' \
    '.TagSpecifications | map(.Tags) | unique == [[{Key: "Name", Value: "rf-5f0c-1"}, {Key: "ringfence-label", Value: "lab/run1"}]]' \
    'has("CreditSpecification") | not' '.UserData | startswith("#cloud-config\n")' \
    '.UserData | ltrimstr("#cloud-config\n") | fromjson | .ssh_authorized_keys == ["ssh-ed25519 AAAA me; \"x\""] and .disable_root == false'
drive 0 create
is '{"instance_id": "i-00", "name": "rf-5f0c-1", "status": "starting", "price_usd": "1.019929"}'
drive 0 describe i-00
is '{"instance_id": "i-00", "name": "rf-5f0c-1", "status": "running", "host": "203.0.113.8", "port": 22, "user": "root"}'
drive 0 list
is '{"instances": [{"instance_id": "i-00", "name": "rf-5f0c-1", "status": "running", "host": "203.0.113.8", "port": 22, "user": "root"}]}'

echo "== it ends itself at its deadline, and not before"
jq -r '.UserData | ltrimstr("#cloud-config\n") | fromjson | .write_files[0].content' vendor/request >end.sh
grep -qxF 'until [ "$(date +%s)" -ge 4070908800 ]; do sleep 5; done' end.sh || fail "it waits for another time: $(cat end.sh)"
mkdir instance
printf '#!/bin/sh\necho "$*" >>ended\n' >instance/systemctl
printf '#!/bin/sh\ncat now\n' >instance/date
printf '#!/bin/sh\necho waited >>ended\necho 4070908800 >now\n' >instance/sleep
chmod +x instance/*
echo 4070908799 >now
PATH=$scratch/instance:$PATH sh end.sh
[ "$(cat ended)" = "waited
-i poweroff" ] || fail "it has done: $(cat ended)"

echo "== whose account it is, and in which region"
drive 0 account
is '{"vendor_account": "123456789012/us-east-1"}'
AWS_REGION=us-west-2 drive 0 account
is '{"vendor_account": "123456789012/us-west-2"}'
AWS_REGION=us-west-2 RINGFENCE_ACCOUNT=999999999999/us-east-1 drive 0 account
is '{"vendor_account": "123456789012/us-east-1"}'
for garbage in '' '{}' '{"Account": null}' '{"Account": "x"}' '{"Account": 7}'; do
    printf '%s' "$garbage" >vendor/garbage-get-caller-identity
    drive 1 account
    [ ! -s out ] || fail "an account that is none: $garbage"
done
rm vendor/garbage-get-caller-identity
with get-caller-identity ExpiredToken drive 1 account

echo "== the region of the rent goes before that of the environment"
AWS_REGION=us-west-2 drive 0 describe i-00
is '{"instance_id": "i-00", "name": "", "status": "not-found"}'
export RINGFENCE_ACCOUNT=123456789012/us-east-1
AWS_REGION=us-west-2 drive 0 describe i-00
out_has '"status":"running"'
(unset AWS_REGION && AWS_DEFAULT_REGION=eu-west-1 && export AWS_DEFAULT_REGION && drive 0 delete i-00)
unset RINGFENCE_ACCOUNT
called "us-east-1 ec2 terminate-instances --instance-ids i-00"
drive 0 describe i-00
is '{"instance_id": "i-00", "name": "rf-5f0c-1", "status": "terminated"}'
drive 0 delete i-00
[ "$(grep -c terminate-instances vendor/calls)" -eq 1 ] || fail "what is gone was deleted again"
drive 0 describe i-0ff
is '{"instance_id": "i-0ff", "name": "", "status": "not-found"}'
drive 0 delete i-0ff

echo "== what EC2 shows"
states='{"pending":"starting","running":"starting","shutting-down":"stopped","stopping":"stopped","stopped":"stopped","terminated":"terminated","new":"starting"}'
jq -c 'to_entries | map({InstanceId: "i-\(.key)", State: {Name: .value}})' <<<"$(jq -c keys_unsorted <<<"$states")" >vendor/instances-us-east-1
drive 0 list
[ "$(jq -c '.instances | map(.status)' out)" = "$(jq -c '[.[]]' <<<"$states")" ] || fail "the states"
echo '[{"InstanceId": "i/1", "Tags": [{"Key": "x", "Value": "y"}, {"Key": "Name", "Value": "other"}]}]' >vendor/instances-us-east-1
drive 0 list # rent finds out that it is none of its own
is '{"instances": [{"instance_id": "i/1", "name": "other"}]}'
echo '[{"InstanceId": "i-01", "Tags": []}]' >vendor/instances-us-east-1
drive 1 describe i-01
drive 1 delete i-01
for garbage in '' null '{}' 7 '[7]'; do
    printf '%s' "$garbage" >vendor/garbage-describe-instances
    for call in list "describe i-01" "delete i-01"; do
        # shellcheck disable=SC2086
        drive 1 $call
        [ ! -s out ] || fail "an answer that is none: $garbage, $call"
    done
done
rm vendor/garbage-describe-instances
for code in UnauthorizedOperation AuthFailure ExpiredToken RequestLimitExceeded InternalError; do
    for call in list "describe i-01" "delete i-01"; do
        # shellcheck disable=SC2086
        with describe-instances "$code" drive 1 $call
        err_has "us-east-1: An error occurred ($code)"
    done
done
with terminate-instances OperationNotPermitted drive 1 delete i-01

echo "== what may be created"
echo '[]' >vendor/instances-us-east-1
order '{instance_type: "t3.micro", gpus: 0, image: "ami-mine", disk_gb: 100, max_price_usd: "1.0230", tier: "secure"}'
types 0
RINGFENCE_AWS_SUBNET=subnet-0c drive 0 create
called "describe-images --image-ids ami-mine"
out_has '"price_usd":"1.022905"'
request_is '.CreditSpecification.CpuCredits == "standard"' '.NetworkInterfaces[0].SubnetId == "subnet-0c"' '.BlockDeviceMappings[0].Ebs.VolumeSize == 100'
types 1
: >vendor/calls
refused '{max_price_usd: "1.019928"}' 'g5.xlarge costs $1.019929 per hour in us-east-1 with its disk and address, above the $1.019928'
refused '{gpus: 4}' "g5.xlarge has 1 GPUs, and the token is for 4"
refused '{disk_gb: 74}' "needs a disk of 75 GB"
refused '{instance_type: "any"}' "any is no instance type of EC2"
refused '{image: "--x"}' "--x is no image"
refused '{tier: "spot"}' "there is no tier spot here"
refused '{until: "2020-01-01T00:00:00Z"}' "has passed"
refused '{seconds_left: 0}' "has passed"
for bad in '{until: "tomorrow"}' '{gpus: 1.5}' '{gpus: -1}' '{disk_gb: 0}' '{max_price_usd: "a lot"}' '{instance_type: null}' '{label: null}'; do
    refused "$bad" "not the order"
done
(unset RINGFENCE_AWS_SECURITY_GROUP && refused '{}' "RINGFENCE_AWS_SECURITY_GROUP is not set")
(unset AWS_REGION && order '{}' && drive 3 check && err_has "AWS_REGION is not set")
echo eu-west-1 >vendor/profile
(unset AWS_REGION && drive 0 list)
for command in describe-instance-types get-parameter describe-images get-products dry-run; do
    with "$command" AccessDeniedException refused '{}' "The policy in docs/CLOUD.md"
done
with get-products AccessDenied refused '{}' "the price cannot be read, and nothing is created without it"
for none in '{"PriceList": []}' "$(product Hrs 0.0000000000)" "$(product Quantity 1.0)"; do
    echo "$none" >vendor/garbage-get-products
    refused '{}' "the price list has no on-demand price of g5.xlarge in us-east-1"
done
echo '{"PriceList": ["x"]}' >vendor/garbage-get-products
refused '{}' "not as its documentation says"
rm vendor/garbage-get-products
echo '{"Images": [{"ImageId": "ami-0dl", "BlockDeviceMappings": [{"Ebs": {"VolumeSize": 8}}, {"Ebs": {"VolumeSize": 8}}]}]}' >vendor/garbage-describe-images
refused '{}' "has 2 EBS volumes"
# image FILTER: what describe-images answers, but for this.
image() { jq -c ".Images[0] |= (. + {UsageOperation: \"RunInstances\", PlatformDetails: \"Linux/UNIX\", ProductCodes: []} + $1)" vendor/images >vendor/garbage-describe-images; }
image '{UsageOperation: "RunInstances:0010", PlatformDetails: "Red Hat Enterprise Linux"}'
refused '{}' "may cost more than plain Linux (platform Red Hat Enterprise Linux, 0 product codes): take one of Linux/UNIX that has no product code"
image '{ProductCodes: [{ProductCodeId: "x", ProductCodeType: "marketplace"}]}'
refused '{}' "plain Linux (platform Linux/UNIX, 1 product codes)"
image '{}'
order '{}'
drive 0 check
rm vendor/garbage-describe-images
[ "$(made)" -eq 0 ] || fail "something was created that may not be"

echo "== after the order only a refusal is certain"
order '{}'
for code in InsufficientInstanceCapacity VcpuLimitExceeded InvalidSubnetID.NotFound Unsupported; do
    with run-instances "$code" drive 3 create
done
for code in RequestLimitExceeded IdempotentParameterMismatch InternalError ServiceUnavailable NoSuchCode; do
    with run-instances "$code" drive 1 create
done
for garbage in '' '{}' '{"Instances": []}' '{"Instances": [{"InstanceId": 7}]}'; do
    printf '%s' "$garbage" >vendor/garbage-run-instances
    drive 1 create
done
rm vendor/garbage-run-instances
echo '{"Instances": []}' >vendor/garbage-dry-run
drive 1 create
err_has "it took a dry run for an order: look for rf-5f0c-1 there"
rm vendor/garbage-dry-run
touch vendor/lost
drive 1 create
err_has "Connect timeout"
rm vendor/lost
drive 0 list # its name finds it
out_has rf-5f0c-1

echo "== calls that are wrong"
: >vendor/calls
for call in "" frobnicate describe "describe -x" "describe pod1" "describe i-0g" "describe i-" "list x" "delete" "delete i-0/x" "delete i-0 y" "account x"; do
    # shellcheck disable=SC2086
    drive 1 $call
done
for text in "no order" "" "{}" "[]"; do
    printf '%s' "$text" >order
    drive 3 create
    err_has "not the order"
done
[ ! -s vendor/calls ] || fail "a call that is wrong went to AWS"
echo passed
