/* Ends the instances of a label at the vendor, again and again until they are gone, and sends the evidence.
 * Called by rent.c, watchdog.c and cli/rent.c. */
#include "end.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "budget/time.h"
#include "clock.h"

enum {
    PAUSE_MS_FIRST = 1000,
    PAUSE_MS_MAX = 15 * 1000,
};
_Static_assert((int)RENT_LATE_S > (int)RENT_CALL_S, "the last order takes so long itself");

void rent_say(const rent_reporter *reporter, const char *format, ...)
{
    char line[RENT_LINE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    reporter->say(reporter->user, line);
}

int64_t rent_order_end_s(int64_t permit_s, int64_t number)
{
    return permit_s + number * RENT_CALL_S;
}

void rent_sleep(int milliseconds)
{
    const struct timespec time = {.tv_sec = milliseconds / 1000,
                                  .tv_nsec = milliseconds % 1000 * BASE_NS_PER_MS};
    (void)nanosleep(&time, NULL);
}

void rent_print(void *user, const char *line)
{
    char shown[RENT_LINE_BYTES];
    (void)user;
    (void)snprintf(shown, sizeof shown, "%s", line);
    base_text_escape(shown, sizeof shown);
    (void)fprintf(stderr, "budget-service: %s\n", shown);
}

/* The state of one ending: what was said last, so that it is not said again. */
typedef struct end_work {
    const rent_ending *ending;
    rent_held *held;
    rent_list list; /* the vendor's last */
    int64_t listed_at_s;
    bool says_late;
    bool
        speaks; /* the driver is asked about the account that has the instances, as far as it says */
    bool placed;                     /* the ledger has been told the account */
    bool told[BUDGET_INSTANCES_MAX]; /* the vendor has taken the order to delete it */
    char trouble[BASE_ERROR_MESSAGE_BYTES];
} end_work;

static void say_trouble(end_work *work, const base_error *error)
{
    if (strcmp(work->trouble, error->message) != 0) {
        (void)snprintf(work->trouble, sizeof work->trouble, "%s", error->message);
        rent_say(work->ending->reporter, "%s; trying again", error->message);
    }
}

static bool exists(const rent_instance *instance)
{
    return instance->state != RENT_TERMINATED && instance->state != RENT_NOT_FOUND;
}

/* So that its bill is found. */
static void attach(const end_work *work, const char *id)
{
    const rent_ending *ending = work->ending;
    base_error error = {0};
    if (ending->client == NULL) {
        return;
    }
    if (budget_attach(ending->client, ending->label, id, NULL, ending->account, &error) !=
        BUDGET_GRANTED) {
        rent_say(ending->reporter,
                 "%s was found at %s, and could not be attached: %s; so that its bill is found: "
                 "budget-service attach %s --instance-id %s",
                 id, ending->driver->vendor, error.message, ending->label, id);
    }
}

/* Whether the driver speaks for the account that has the instances. *other: it is another one, which knows nothing of
 * them; else it could not say, and what it is told to delete is deleted all the same. */
static bool speaks(end_work *work, bool *other)
{
    char account[BUDGET_VENDOR_ACCOUNT_BYTES];
    const rent_ending *ending = work->ending;
    base_error error = {0};
    *other = false;
    if (ending->account[0] == '\0') {
        return true; /* the ledger takes no proof without one */
    }
    base_status status = rent_driver_account(ending->driver, account, &error);
    if (status == BASE_OK && strcmp(account, ending->account) != 0) {
        *other = true;
        status = base_fail(&error, BASE_ERR_STATE,
                           "the driver speaks for the account %s of %s now, and the instances of "
                           "%s are in %s: what it says of them counts for nothing",
                           account, ending->driver->vendor, ending->label, ending->account);
    }
    if (status != BASE_OK) {
        say_trouble(work, &error);
    }
    return status == BASE_OK;
}

/* Takes the vendor's list: instances with the jti in their names are ours, attached or not, and the others'
 * names are known from it. False: the driver failed. */
static bool look(end_work *work)
{
    const rent_ending *ending = work->ending;
    base_error error = {0};
    bool found = false;
    rent_list_free(&work->list);
    work->listed_at_s = rent_time_s();
    if (rent_driver_list(ending->driver, ending->jti, &work->list, &error) != BASE_OK) {
        say_trouble(work, &error);
        return false;
    }
    for (size_t i = 0; i < work->list.count; i++) {
        rent_instance *listed = &work->list.items[i];
        listed->shown = exists(listed);
        const rent_instance *before = rent_held_find(work->held, listed->id);
        const bool known = before != NULL;
        found = found || (known && before->name[0] == '\0' && listed->name[0] != '\0');
        const bool ours = strstr(listed->name, ending->jti) != NULL;
        if ((ours || known) && !rent_hold(work->held, listed)) {
            rent_say(ending->reporter, "more than %d instances carry %s: end %s by hand",
                     BUDGET_INSTANCES_MAX, ending->jti, listed->id);
        }
        if (ours && (!known || (ending->is_unplaced && !work->placed))) {
            attach(work, listed->id);
            work->placed = true;
            found = true;
        }
    }
    if (found && ending->reporter->found != NULL) {
        ending->reporter->found(ending->reporter->user);
    }
    return true;
}

static bool may_come(const end_work *work)
{
    return base_now_ns() < work->ending->late_ns;
}

static bool is_listed(const end_work *work, const char *id)
{
    for (size_t i = 0; i < work->list.count; i++) {
        if (strcmp(work->list.items[i].id, id) == 0 && exists(&work->list.items[i])) {
            return true;
        }
    }
    return false;
}

static void say_late(end_work *work)
{
    const rent_ending *ending = work->ending;
    if (!work->says_late) {
        work->says_late = true;
        rent_say(ending->reporter,
                 "%s may not show all yet that was ordered for %s: looking for %" PRId64 " s more",
                 ending->driver->vendor, ending->label,
                 (ending->late_ns - base_now_ns()) / BASE_NS_PER_S + 1);
    }
}

static bool has_jti(const end_work *work, const rent_instance *held)
{
    return strstr(held->name, work->ending->jti) != NULL;
}

/* Whether the vendor's answer says that it is gone. "Not found" may be wrong for a moment, so it counts only after the order
 * to delete it; one that is not deleted, because its name is not ours, is not proven to be gone either. */
static bool is_gone(const end_work *work, int index, const rent_instance *now)
{
    return !exists(now) && work->speaks &&
           (now->state == RENT_TERMINATED || work->told[index] ||
            !has_jti(work, &work->held->items[index]));
}

/* Asks about one instance, and deletes it unless it is gone. Of one that the list has, describe would
 * say nothing new. True: it is gone. */
static bool end_one(end_work *work, int index)
{
    const rent_ending *ending = work->ending;
    rent_instance *held = &work->held->items[index];
    rent_instance now = {.state = RENT_STARTING};
    base_error error = {0};
    base_status status = BASE_OK;
    if (!is_listed(work, held->id)) {
        status = rent_driver_describe(ending->driver, held->id, &now, &error);
        if (status == BASE_OK && now.state == RENT_NOT_FOUND && !held->shown && may_come(work)) {
            say_late(work); /* not yet, perhaps */
            return false;
        }
        if (status == BASE_OK && is_gone(work, index, &now)) {
            held->state = now.state;
            work->held->gone_at_s[index] = rent_time_s();
            rent_say(ending->reporter, "%s is gone: the vendor says %s", held->id,
                     rent_state_name(now.state));
            return true;
        }
        if (status == BASE_OK && exists(&now)) {
            rent_instance_show(held, &now);
        }
    }
    if (status == BASE_OK && !has_jti(work, held) && !exists(&now)) {
        return false; /* nobody knows of which account that is true */
    }
    if (status == BASE_OK && !has_jti(work, held)) {
        status = base_fail(&error, BASE_ERR_STATE,
                           "%s is attached to %s, and is named '%s', without %s: whoever made it "
                           "ends it",
                           held->id, ending->label, held->name, ending->jti);
    }
    if (status == BASE_OK) {
        status = rent_driver_delete(ending->driver, held->id, &error);
    }
    if (status != BASE_OK) {
        say_trouble(work, &error);
    } else if (!work->told[index]) {
        work->told[index] = true;
        rent_say(ending->reporter, "%s has the order to delete %s; waiting until it is gone",
                 ending->driver->vendor, held->id);
    }
    return false;
}

/* Whether all are gone: the vendor says so of each, and a list that came after has none of them. The driver spoke for
 * their account before and after that. */
static bool end_all(end_work *work)
{
    bool other = false;
    work->speaks = speaks(work, &other);
    if (other) {
        return false;
    }
    bool gone = look(work) && work->speaks;
    for (int i = 0; i < work->held->count; i++) {
        if (work->held->gone_at_s[i] == 0) {
            gone = end_one(work, i) && gone;
        }
    }
    if (!gone || !look(work)) {
        return false;
    }
    for (int i = 0; i < work->held->count; i++) {
        if (is_listed(work, work->held->items[i].id)) {
            work->held->gone_at_s[i] = 0;
        }
        gone =
            gone && work->held->gone_at_s[i] != 0; /* of one that this list has shown first, too */
    }
    return gone && speaks(work, &other);
}

/* An order of which nobody knows what became of it may still show. */
static bool none_comes(const end_work *work)
{
    return work->held->count >= work->ending->ordered || !may_come(work);
}

/* ---- the evidence ---- */

static json_t *described_json(const rent_held *held)
{
    json_t *described = json_array();
    for (int i = 0; i < held->count; i++) {
        char at[BUDGET_TIME_BYTES];
        const rent_instance *instance = &held->items[i];
        budget_time_format(held->gone_at_s[i], at);
        (void)json_array_append_new(described,
                                    json_pack("{s:s, s:s, s:s, s:s}", "at", at, "instance_id",
                                              instance->id, "name", instance->name, "status",
                                              rent_state_name(instance->state)));
    }
    return described;
}

static json_t *listed_json(const rent_list *list)
{
    json_t *listed = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const rent_instance *instance = &list->items[i];
        if (!exists(instance)) {
            continue; /* some vendors list for a while what is gone */
        }
        json_t *item = json_pack("{s:s}", "instance_id", instance->id);
        if (instance->name[0] != '\0') {
            (void)json_object_set_new(item, "name", json_string(instance->name));
        }
        (void)json_array_append_new(listed, item);
    }
    return listed;
}

static char *evidence_text(const end_work *work)
{
    char at[BUDGET_TIME_BYTES];
    budget_time_format(work->listed_at_s, at);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:s, s:o}}", "evidence", "ringfence/termination/v1",
                  "vendor", work->ending->driver->vendor, "vendor_account", work->ending->account,
                  "jti", work->ending->jti, "describe", described_json(work->held), "list", "at",
                  at, "instances", listed_json(&work->list));
    char *text = json_dumps(object, JSON_INDENT(1));
    json_decref(object);
    return text;
}

/* What a person runs where the service has taken no proof: the same once more if it gave no answer, an
 * admin's word if it refused. */
static void say_unproven(const end_work *work, const char *why, bool refused)
{
    const rent_ending *ending = work->ending;
    const char *file = ending->evidence_path != NULL ? ending->evidence_path : "DIR/evidence.json";
    rent_say(ending->reporter, "no instance of %s is left at %s, but that is not proven: %s",
             ending->label, ending->driver->vendor, why);
    if (refused) {
        rent_say(ending->reporter,
                 "if that can be mended, ask the vendor again: budget-service end %s%s; else an "
                 "admin may vouch for it: budget-service terminated %s --evidence %s --attested "
                 "--key admin",
                 ending->label, ending->flags, ending->label, file);
    } else if (ending->evidence_path == NULL) {
        rent_say(ending->reporter, "when the service answers: budget-service end %s%s",
                 ending->label, ending->flags);
    } else {
        rent_say(ending->reporter,
                 "when the service answers: budget-service terminated %s --evidence %s",
                 ending->label, file);
    }
}

static rent_end_outcome send_evidence(const end_work *work, const char *text)
{
    const rent_ending *ending = work->ending;
    base_error error = {0};
    if (ending->client == NULL) {
        say_unproven(work, "the service could not be asked", false);
        return RENT_END_UNPROVEN;
    }
    if (work->held->count < ending->instances_max) {
        (void)base_fail(&error, BASE_ERR_STATE,
                        "%d of the %" PRId64 " instances that its token allows were made",
                        work->held->count, ending->instances_max);
        say_unproven(work, error.message, true);
        return RENT_END_UNPROVEN;
    }
    const budget_verdict verdict =
        budget_terminated(ending->client, ending->label, text, strlen(text), false, &error);
    if (verdict == BUDGET_GRANTED) {
        return RENT_END_PROVEN;
    }
    say_unproven(work, error.message, verdict != BUDGET_FAILED && verdict != BUDGET_UNKNOWN);
    return RENT_END_UNPROVEN;
}

static rent_end_outcome prove(const end_work *work)
{
    const rent_ending *ending = work->ending;
    char *text = evidence_text(work);
    base_error error = {0};
    rent_end_outcome outcome = RENT_END_UNPROVEN;
    if (text == NULL) {
        say_unproven(work, "no memory for the evidence", true);
        return outcome;
    }
    if (ending->evidence_path != NULL &&
        base_file_write(ending->evidence_path, text, strlen(text), &error) != BASE_OK) {
        rent_say(ending->reporter, "%s", error.message);
    }
    outcome = send_evidence(work, text);
    free(text);
    return outcome;
}

/* One pass. True: nothing is left, and nothing may come. */
static bool is_over(end_work *work)
{
    const bool gone = end_all(work);
    if (gone && !none_comes(work)) {
        say_late(work);
    }
    return gone && none_comes(work);
}

rent_end_outcome rent_end(const rent_ending *ending, rent_held *held)
{
    end_work work = {.ending = ending, .held = held};
    rent_end_outcome outcome = RENT_END_OPEN;
    int pause_ms = PAUSE_MS_FIRST;
    bool gone = is_over(&work);
    while (!gone && ending->reporter->pause(ending->reporter->user, pause_ms)) {
        pause_ms = pause_ms * 2 < PAUSE_MS_MAX ? pause_ms * 2 : PAUSE_MS_MAX;
        gone = is_over(&work);
    }
    if (gone) {
        outcome = prove(&work);
    } else if (!ending->is_watched) {
        rent_say(ending->reporter,
                 "given up: instances of %s may still run and cost money: budget-service end %s%s, "
                 "or end them at %s",
                 ending->label, ending->label, ending->flags, ending->driver->vendor);
    }
    rent_list_free(&work.list);
    return outcome;
}
