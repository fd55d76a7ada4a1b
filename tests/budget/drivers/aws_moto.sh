#!/usr/bin/env bash
# A whole rent at EC2, as moto answers for it, with the real command line of AWS and a real budget service. Prices come from a stub
# here, because moto has none. To run it: python3 -m venv V && V/bin/pip install 'moto[server]' awscli, and V/bin in PATH.
#   aws_moto.sh BUILD SOURCES
set -euo pipefail

build=$(cd "$1" && pwd)
for program in jq python3 aws moto_server; do
    command -v "$program" >/dev/null || {
        echo "skipped: there is no $program here"
        exit 77
    }
done
export PATH=$build/bin:$PATH
. "$2/tests/support/service.sh"
export BUDGET_SERVICE_DIR=$scratch/service
unset "${!AWS_@}"
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; finish' EXIT
: >out
: >err

moto_server -H 127.0.0.1 -p 0 >moto 2>&1 </dev/null &
started+=($!)
cat >prices.py <<'PY'
import http.server, json

class Prices(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        disk = any(one["Value"] == "gp3" for one in body["Filters"])
        price = {"unit": "GB-Mo" if disk else "Hrs", "pricePerUnit": {"USD": "0.08" if disk else "3.912"}}
        product = json.dumps({"terms": {"OnDemand": {"term": {"priceDimensions": {"rate": price}}}}})
        answer = json.dumps({"FormatVersion": "aws_v1", "PriceList": [product]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Prices)
print(server.server_port, flush=True)
server.serve_forever()
PY
exec 4< <(exec python3 prices.py)
started+=($!)
read -rt 60 -u 4 port || fail "the price list does not start"
for ((i = 0; i < 600; i++)); do
    url=$(sed -n 's/.*\(http:[0-9./:]*\).*/\1/p' moto | head -n 1)
    [ -z "$url" ] || break
    sleep 0.1
done
export AWS_ENDPOINT_URL=${url:?moto does not start} AWS_ENDPOINT_URL_PRICING=http://127.0.0.1:$port
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
group=$(aws ec2 describe-security-groups --query 'SecurityGroups[0].GroupId' --output text)
export RINGFENCE_AWS_SECURITY_GROUP=$group
image=$(aws ec2 describe-images --filters Name=architecture,Values=x86_64 --query 'Images[0].ImageId' --output text)

head -c 24 /dev/urandom | base64 >passphrase
budget 0 init --passphrase-file passphrase
start_service --passphrase-file passphrase
budget 0 account create lab --cap 10
launcher --mode gate-check --ranks 2 --write-job JOB.json >out 2>err
echo "ssh-ed25519 AAAA me" >key.pub
# authorize LABEL USD-PER-HOUR
authorize() {
    budget 0 authorize "$1" 4.10 --account lab --job JOB.json --vendor aws --instance-type g4dn.12xlarge --gpus 4 --tier secure \
        --instances 1 --max-price "$2" --max-hours 1 --max-attempts 1 --out "$1.token"
}

echo "== a price above the granted one"
authorize dear 3.90
budget 4 rent dear.token --image "$image" --out dear -- true
err_has "g4dn.12xlarge costs" "above the \$3.900000 that are allowed" "nothing was created, and the token is as good as before"

echo "== an instance, a command, and the end"
authorize good 3.95
cat >command.sh <<'END'
#!/bin/sh
aws ec2 describe-instances >shown
echo "$RINGFENCE_USER at port $RINGFENCE_PORT"
exit 5
END
chmod +x command.sh
budget 5 rent good.token --image "$image" --ssh-key key.pub --out good -- ./command.sh
out_has "root at port 22"
err_has "the vendor says terminated" "all of good is ended, and proven"
[ "$(budget-service list --json | jq -r '.entries[] | select(.label == "good") | .state')" = terminated-unbilled ] || fail "the ledger"
jti=$(jq -r .jti good/instances.json)
jq -e --arg name "rf-$jti-1" '[.Reservations[].Instances[]] | length == 1 and (.[0] | .State.Name == "running" and .ClientToken == $name
    and (.Tags | sort_by(.Key)) == [{Key: "Name", Value: $name}, {Key: "ringfence-label", Value: "good"}] and .MetadataOptions.HttpTokens == "required" and .InstanceType == "g4dn.12xlarge")' \
    shown >/dev/null || { cp shown out && fail "the instance"; }
id=$(jq -r '.instances[0].instance_id' good/instances.json)
aws ec2 describe-instance-attribute --instance-id "$id" --attribute instanceInitiatedShutdownBehavior >out 2>err
out_has '"Value": "terminate"'
aws ec2 describe-instance-attribute --instance-id "$id" --attribute userData --query UserData.Value --output text | base64 -d >out
out_has '#cloud-config' 'ssh-ed25519 AAAA me' '/usr/local/sbin/ringfence-end'
budget 0 running --check
jq -e '.vendor_account == "123456789012/us-east-1"' good/evidence.json >/dev/null || { cp good/evidence.json out && fail "the account"; }
echo passed
