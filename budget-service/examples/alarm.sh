#!/bin/sh
# A hook for budget-service: says each alarm by mail, and ends the instances of a run that has passed
# its deadline. Copy it, and name the copy in policy.json: "hook": ["/usr/local/lib/ringfence/alarm.sh"].
# Settings are in a file beside it, alarm.conf:
#   mail_to=you@example.org     nobody is written to without it
#   end_at_deadline=yes         without it the mail alone goes out. Whoever may ask for money may attach
#                               any id that no label has, and have that instance ended so
#   drivers=/opt/drivers        where the vendors' drivers are; without it those that were installed
#                               with the budget-service of PATH
# It gets one JSON object on standard input. Its texts have no quotes and no backslashes, so that sed
# reads them. It must not take longer than 60 s, and what it leaves behind is ended with it, so it
# waits for all that it starts. If it fails, the service's log and status say so.
set -uf
mail_to=""
end_at_deadline=no
drivers=""
settings=$(dirname "$0")/alarm.conf
# shellcheck disable=SC1090
[ ! -f "$settings" ] || . "$settings"

alarm=$(cat)
text_of() { printf '%s\n' "$alarm" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
# One a line. Texts have no quotes, so `","` stands only between two of them.
instances() {
    printf '%s\n' "$alarm" | sed -n 's/.*"instances":\["\(.*\)"\].*/\1/p' | sed 's/"\].*//; s/","/\
/g'
}

# end_instance VENDOR ID: the vendor's driver, with its key in the environment of the service. Who asks for money
# names the vendor, and who attaches an instance its id, so only what looks like one goes to a command.
end_instance() {
    case $2 in
    "" | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*)
        echo "this is no instance's id"
        return 1
        ;;
    esac
    where=${drivers:-$(dirname "$(command -v budget-service)")/../share/ringfence/drivers}
    case $1 in
    "" | *[!a-z0-9-]*) ;;
    *) [ ! -x "$where/$1" ] || {
        timeout 15 "$where/$1" delete "$2"
        return
    } ;;
    esac
    echo "there is no driver of $1 in $where: set drivers= in alarm.conf"
    return 1
}

event=$(text_of event)
label=$(text_of label)
failed=0

# send TEXT: sendmail returns when it has the mail; mail(1) may return before.
send() {
    [ -n "$mail_to" ] || return 0
    printf 'To: %s\nSubject: budget: %s %s\n\n%s\n' "$mail_to" "$event" \
        "${label:-$(text_of account)$(text_of finding)}" "$1" | timeout 15 sendmail -t || failed=1
}

send "$alarm" # first: what follows may take all of the time
if [ "$event" = deadline-passed ] && [ "$end_at_deadline" = yes ]; then
    vendor=$(text_of vendor)
    report=""
    IFS='
'
    for id in $(instances); do
        if said=$(end_instance "$vendor" "$id" </dev/null 2>&1); then
            report="${report}ended $id
"
        else
            failed=1
            report="${report}NOT ended, look at the vendor's list: $id: $said
"
        fi
    done
    send "${report}then: budget-service terminated $label --evidence FILE"
fi
exit $failed
