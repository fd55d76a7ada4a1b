#!/bin/sh
# A hook for budget-service: says each alarm by mail, and ends the instances of a run that has passed
# its deadline. Copy it, and name the copy in policy.json: "hook": ["/usr/local/lib/ringfence/alarm.sh"].
# Settings are in a file beside it, alarm.conf:
#   mail_to=you@example.org     nobody is written to without it
#   end_at_deadline=yes         without it the mail alone goes out
#   key=admin                   the client's key that proves an end: it must be in the service's directory
#   drivers=/opt/drivers        where the vendors' drivers are; without it those that were installed
#                               with the budget-service of PATH
# It gets one JSON object on standard input. Its texts have no quotes and no backslashes, so that sed
# reads them. It must not take longer than 60 s, and what it leaves behind is ended with it, so it
# waits for all that it starts. If it fails, the service's log and status say so.
set -uf
mail_to=""
end_at_deadline=no
key=admin
drivers=""
settings=$(dirname "$0")/alarm.conf
# shellcheck disable=SC1090
[ ! -f "$settings" ] || . "$settings"

alarm=$(cat)
text_of() { printf '%s\n' "$alarm" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
event=$(text_of event)
label=$(text_of label)
failed=0

# send TEXT: sendmail returns when it has the mail; mail(1) may return before.
send() {
    [ -n "$mail_to" ] || return 0
    printf 'To: %s\nSubject: budget: %s %s\n\n%s\n' "$mail_to" "$event" \
        "${label:-$(text_of account)$(text_of finding)}" "$1" | timeout 10 sendmail -t || failed=1
}

# end: all instances of the run that have its token's jti in their names, by the vendor's driver, whose key is in
# the environment of the service. It asks this service, whose directory is in BUDGET_SERVICE_DIR.
end() {
    set -- "$label" --key "$key"
    vendor=$(text_of vendor)
    case $vendor in
    .* | */*) ;; # no vendor has such a name
    *) [ -z "$drivers" ] || set -- "$@" --driver "$drivers/$vendor" ;;
    esac
    timeout 35 budget-service end "$@" </dev/null 2>&1
}

send "$alarm" # first: what follows may take all of the time
if [ "$event" = deadline-passed ] && [ "$end_at_deadline" = yes ]; then
    if said=$(end); then
        send "$said"
    else
        failed=1
        send "NOT ended, or not proven: look at the vendor's list.
$said"
    fi
fi
exit $failed
