#!/bin/sh
# A hook for budget-service: says each alarm by mail, and ends the instances of a run that has passed
# its deadline. Copy it, and name the copy in policy.json: "hook": ["/usr/local/lib/ringfence/alarm.sh"].
# Settings are in a file beside it, alarm.conf:
#   mail_to=you@example.org     nobody is written to without it
#   end_at_deadline=yes         without it the mail alone goes out
# It gets one JSON object on standard input. Its texts have no quotes and no backslashes, so that sed
# reads them. It must not take longer than 60 s. If it fails, the service's log and status say so.
set -u
mail_to=""
end_at_deadline=no
settings=$(dirname "$0")/alarm.conf
# shellcheck disable=SC1090
[ ! -f "$settings" ] || . "$settings"

alarm=$(cat)
text_of() { printf '%s\n' "$alarm" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
instances() { printf '%s\n' "$alarm" | sed -n 's/.*"instances":\[\([^]]*\)\].*/\1/p' | tr ',' '\n' | tr -d '"'; }

# end_instance VENDOR ID: the vendor's own command, with its key in the environment of the service.
end_instance() {
    case $1 in
    runpod) runpodctl remove pod "$2" ;;
    vast) vastai destroy instance "$2" ;;
    *)
        echo "no command ends an instance of $1"
        return 1
        ;;
    esac
}

event=$(text_of event)
label=$(text_of label)
failed=0
report=$alarm
if [ "$event" = deadline-passed ] && [ "$end_at_deadline" = yes ]; then
    for id in $(instances); do
        if said=$(end_instance "$(text_of vendor)" "$id" </dev/null 2>&1); then
            report="$report
ended $id: $said"
        else
            failed=1
            report="$report
NOT ended, look at the vendor's list: $id: $said"
        fi
    done
    report="$report
then: budget-service terminated $label --evidence FILE"
fi
if [ -n "$mail_to" ]; then
    printf '%s\n' "$report" | mail -s "budget: $event ${label:-$(text_of account)}" "$mail_to" || failed=1
fi
exit $failed
