/* Goes through a rent from the first look at the vendor to the proof of the end. Called by cli/rent.c. */
#include "rent.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/path.h"
#include "budget/money.h"
#include "budget/time.h"
#include "clock.h"
#include "command.h"
#include "directory.h"
#include "watchdog.h"

enum {
    START_S_MAX = 20 * 60, /* until an instance can be reached */
    START_LOOK_MS = 3000,
    MARGIN_S_MAX = 120, /* before the deadline COMMAND is ended, so that the instances are, too */
    MARGIN_PART = 10,
    GRACE_PERCENT = 75, /* of that it may take, to bring back what it has */
    BEGAN_SLACK_S = 5,
    CENT = 10000, /* micro-dollars */
};

/* What a rent holds while it goes on. */
typedef struct rent_session {
    const rent_plan *plan;
    rent_result *result;
    rent_reporter reporter;
    rent_watchdog watchdog;
    budget_client *client;
    char account[BUDGET_VENDOR_ACCOUNT_BYTES]; /* of the vendor, where the instances will be */
    int64_t until_s;                           /* the deadline, by the service's clock */
    int64_t deadline_s;                        /* COMMAND's, by rent_clock_s */
    int64_t grace_s;                           /* that it has then */
    int64_t permit_s;                          /* by rent_clock_s: when the permit was asked for */
    int64_t began_s;                           /* by rent_time_s: when the first one was ordered */
    int64_t ordered;                           /* that may have been created */
    int64_t late_s; /* by rent_clock_s: until then the vendor may not know what it has created */
    int signal;     /* that came before COMMAND */
    bool ending;    /* a signal now means: do not wait */
} rent_session;

/* False after a second signal: the watchdog goes on alone. */
static bool pause_for(void *user, int milliseconds)
{
    rent_session *rent = user;
    const int number = rent_signals_wait(milliseconds);
    if (number == 0 || number == SIGHUP) {
        return true;
    }
    if (!rent->ending) {
        rent->ending = true;
        rent_say(&rent->reporter, "ending the instances; once more, and that goes on in the "
                                  "background");
        return true;
    }
    return false;
}

/* Whether to stop before COMMAND. */
static bool is_interrupted(rent_session *rent, int milliseconds)
{
    const int number = rent_signals_wait(milliseconds);
    rent->signal = number != 0 ? number : rent->signal;
    return rent->signal != 0;
}

/* ---- before anything is created ---- */

static void fill_order(const rent_session *rent, int number, rent_order *order)
{
    const rent_plan *plan = rent->plan;
    *order =
        (rent_order){.claims = plan->claims, .until_s = rent->until_s, .disk_gb = plan->disk_gb};
    (void)snprintf(order->name, sizeof order->name, "rf-%s-%d", plan->claims->jti, number);
    (void)snprintf(order->image, sizeof order->image, "%s", plan->image);
    (void)snprintf(order->ssh_public_key, sizeof order->ssh_public_key, "%s", plan->ssh_public_key);
}

static void say_nothing_was_created(const rent_session *rent, const char *why)
{
    rent_say(&rent->reporter, "%s; nothing was created, and the token is as good as before", why);
}

/* The vendor says whose account it is, has nothing of this token, and would create what it allows: RENT_MADE. */
static rent_outcome ask_vendor(rent_session *rent, base_error *error)
{
    rent_list list = {0};
    rent_order order;
    rent_driver_is_about("");
    if (rent_driver_account(rent->plan->driver, rent->account, error) != BASE_OK) {
        return RENT_UNCLEAR;
    }
    rent_driver_is_about(rent->account);
    if (rent_driver_list(rent->plan->driver, rent->plan->claims->jti, &list, error) != BASE_OK) {
        return RENT_UNCLEAR;
    }
    bool has_one = false;
    for (size_t i = 0; i < list.count && !has_one; i++) {
        has_one = strstr(list.items[i].name, rent->plan->claims->jti) != NULL;
        if (has_one) {
            (void)base_fail(error, BASE_ERR_STATE,
                            "%s has an instance of this token already: %s; if no other rent of it "
                            "goes on: budget-service end %s%s",
                            rent->plan->driver->vendor, list.items[i].id, rent->plan->claims->label,
                            rent->plan->flags);
        }
    }
    rent_list_free(&list);
    rent->until_s = rent_time_s() + rent->plan->claims->max_seconds;
    fill_order(rent, 1, &order);
    return has_one ? RENT_REFUSED : rent_driver_check(rent->plan->driver, &order, error);
}

/* The service answers, and takes this client's key: without it nothing can be attached and proven. */
static budget_verdict service_is_ready(rent_session *rent, base_error *error)
{
    static budget_chain chain; /* large */
    if (budget_client_open(rent->plan->client, &rent->client, error) != BASE_OK) {
        return BUDGET_FAILED;
    }
    return budget_remaining(rent->client, rent->plan->claims->account, &chain, error);
}

/* The creation permit. Returns an exit code. */
static int take_permit(rent_session *rent, const proto_keypair *job_key)
{
    const rent_plan *plan = rent->plan;
    const budget_redeem_options options = {.dir = plan->client->dir,
                                           .job_key = job_key,
                                           .timeout_ms = plan->client->timeout_ms,
                                           .vendor_account = rent->account};
    budget_permit permit = {0};
    base_error why = {0};
    const int64_t asked_s = rent_clock_s(); /* the answer may be read late */
    const budget_verdict verdict = budget_redeem_create(&options, plan->token, &permit, &why);
    if (verdict != BUDGET_GRANTED) {
        rent_say(&rent->reporter, "the creation permit (%s): %s; this rent has created nothing",
                 budget_verdict_name(verdict), why.message);
        if (verdict == BUDGET_UNKNOWN) {
            rent_say(&rent->reporter,
                     "if it was given, it is used: budget-service end %s%s says what is to do",
                     plan->claims->label, plan->flags);
        }
        return budget_verdict_exit(verdict);
    }
    rent->until_s = permit.not_after;
    rent_time_set(permit.not_after - permit.seconds_left);
    const int64_t granted_s = plan->claims->max_seconds;
    const int64_t left_s = permit.seconds_left < granted_s ? permit.seconds_left : granted_s;
    const int64_t margin_s =
        granted_s / MARGIN_PART < MARGIN_S_MAX ? granted_s / MARGIN_PART : MARGIN_S_MAX;
    rent->grace_s = margin_s * GRACE_PERCENT / 100;
    const int64_t time_s = left_s - margin_s;
    rent->permit_s = asked_s;
    rent->deadline_s = rent->permit_s + (time_s > 0 ? time_s : 0);
    rent->result->created = true;
    rent_watchdog_arm(&rent->watchdog, rent->deadline_s + 2 * margin_s);
    if (granted_s - left_s > BEGAN_SLACK_S) {
        rent_say(&rent->reporter,
                 "%" PRId64 " s of the granted time are over: it began before this rent",
                 granted_s - left_s);
    }
    return BASE_EXIT_DONE;
}

/* ---- the instances ---- */

static bool keep(const rent_session *rent)
{
    const budget_claims *claims = rent->plan->claims;
    const rent_whose whose = {claims->label, claims->jti, rent->until_s};
    base_error error = {0};
    const bool kept =
        rent_directory_write(rent->plan->directory, &whose, &rent->result->held, &error) == BASE_OK;
    if (!kept) {
        rent_say(&rent->reporter, "%s", error.message);
    }
    return kept;
}

static void keep_found(void *user)
{
    (void)keep(user);
}

/* Creates one, and attaches it before anything else. False: this rent comes to its end. */
static bool create_one(rent_session *rent, int number)
{
    rent_order order;
    rent_instance made;
    base_error error = {0};
    const rent_plan *plan = rent->plan;
    fill_order(rent, number, &order);
    const rent_outcome outcome = rent_driver_create(plan->driver, &order, &made, &error);
    rent->ordered += outcome != RENT_REFUSED;
    if (outcome != RENT_MADE) {
        rent_say(&rent->reporter, "%s%s",
                 outcome == RENT_UNCLEAR ? "nobody knows whether it was created: " : "",
                 error.message);
        return false;
    }
    (void)rent_hold(&rent->result->held, &made);
    const bool kept = keep(rent);
    if (budget_attach(rent->client, plan->claims->label, made.id, NULL, rent->account, &error) !=
        BUDGET_GRANTED) {
        rent_say(&rent->reporter, "%s was created, and cannot be attached: %s", made.id,
                 error.message);
        return false;
    }
    rent_say(&rent->reporter, "created %s at %s", made.id, plan->driver->vendor);
    return kept;
}

/* Without the watchdog nothing would end them if this rent were killed. */
static bool is_guarded(const rent_session *rent)
{
    const bool lives = rent_watchdog_lives(&rent->watchdog);
    if (!lives) {
        rent_say(&rent->reporter, "the watchdog has been killed, so nothing is created any more");
    }
    return lives;
}

static bool create_all(rent_session *rent)
{
    bool good = true;
    rent->began_s = rent_time_s();
    for (int i = 1; good && i <= (int)rent->plan->claims->instances; i++) {
        const int64_t now_s = rent_clock_s();
        if (now_s >= rent->deadline_s || now_s >= rent_order_end_s(rent->permit_s, i)) {
            rent_say(&rent->reporter, "no time is left for instance %d", i);
            return false;
        }
        good = !is_interrupted(rent, 0) && is_guarded(rent) && create_one(rent, i);
    }
    rent->late_s = rent_clock_s() + RENT_LATE_S;
    return good && !is_interrupted(rent, 0);
}

/* A price above the granted one, which some vendors say only now. */
static bool price_is_right(const rent_session *rent, const rent_instance *instance)
{
    char price[BUDGET_MONEY_BYTES];
    char granted[BUDGET_MONEY_BYTES];
    if (instance->price_usd_micro <= rent->plan->claims->max_price_usd_micro_per_hour) {
        return true;
    }
    budget_money_show(instance->price_usd_micro, price);
    budget_money_show(rent->plan->claims->max_price_usd_micro_per_hour, granted);
    rent_say(&rent->reporter, "%s costs %s/h, and %s/h was granted", instance->id, price, granted);
    return false;
}

/* One look at an instance that does not run yet. False: there is no use in waiting. */
static bool look_at(const rent_session *rent, rent_instance *instance)
{
    rent_instance now;
    base_error error = {0};
    if (rent_driver_describe(rent->plan->driver, instance->id, &now, &error) != BASE_OK) {
        rent_say(&rent->reporter, "%s", error.message);
        return true;
    }
    if (now.state == RENT_NOT_FOUND && !instance->shown && rent_clock_s() < rent->late_s) {
        return true; /* not yet */
    }
    rent_instance_show(instance, &now);
    memcpy(now.name, instance->name, sizeof now.name);
    now.shown = now.state != RENT_NOT_FOUND;
    *instance = now;
    if (strstr(now.name, rent->plan->claims->jti) == NULL) {
        rent_say(&rent->reporter,
                 "the driver says that it has created %s, which is named '%s': somebody else's",
                 now.id, now.name);
        rent_held_drop(&rent->result->held, instance);
        return false;
    }
    if (now.state == RENT_TERMINATED || now.state == RENT_NOT_FOUND || now.state == RENT_STOPPED) {
        rent_say(&rent->reporter, "%s does not start: the vendor says %s", now.id,
                 rent_state_name(now.state));
        return false;
    }
    return price_is_right(rent, &now);
}

static bool wait_until_they_run(rent_session *rent)
{
    rent_held *held = &rent->result->held;
    const int64_t limit_s = rent_clock_s() + START_S_MAX;
    for (;;) {
        int running = 0;
        for (int i = 0; i < held->count; i++) {
            if (held->items[i].state != RENT_RUNNING && !look_at(rent, &held->items[i])) {
                return false;
            }
            running += held->items[i].state == RENT_RUNNING;
        }
        if (running == held->count) {
            return keep(rent) && !is_interrupted(rent, 0);
        }
        if (rent_clock_s() > limit_s || rent_clock_s() > rent->deadline_s) {
            rent_say(&rent->reporter, "%d of %d instances run after %" PRId64 " s: too late",
                     running, held->count, rent_time_s() - rent->began_s);
            return false;
        }
        if (is_interrupted(rent, START_LOOK_MS)) {
            return false;
        }
    }
}

/* ---- the command ---- */

/* What COMMAND finds in its environment. */
static bool set_environment(const rent_session *rent)
{
    char port[16];
    const rent_instance *first = &rent->result->held.items[0];
    (void)snprintf(port, sizeof port, "%d", first->port);
    return setenv("RINGFENCE_RENT_DIR", rent->plan->directory, 1) == 0 &&
           setenv("RINGFENCE_HOST", first->host, 1) == 0 &&
           setenv("RINGFENCE_PORT", port, 1) == 0 && setenv("RINGFENCE_USER", first->user, 1) == 0;
}

static void run_command(rent_session *rent)
{
    rent_command_end end = {0};
    base_error error = {0};
    const rent_instance *first = &rent->result->held.items[0];
    const rent_command command = {.argv = rent->plan->command,
                                  .stdout_fd = rent->plan->command_stdout_fd,
                                  .deadline_s = rent->deadline_s,
                                  .grace_s = rent->grace_s};
    rent_say(&rent->reporter, "%d running after %" PRId64 " s (ssh -p %d %s@%s); now %s",
             rent->result->held.count, rent_time_s() - rent->began_s, first->port, first->user,
             first->host, command.argv[0]);
    if (!set_environment(rent) || rent_command_run(&command, &end, &error) != BASE_OK) {
        rent_say(&rent->reporter, "%s", error.message[0] != '\0' ? error.message : "no memory");
        return;
    }
    rent->result->command_exit = end.exit_code;
    if (end.too_late) {
        char until[BUDGET_TIME_BYTES];
        budget_time_format(rent->until_s, until);
        rent_say(&rent->reporter, "%s was ended, because the granted time is over at %s",
                 command.argv[0], until);
    } else {
        rent_say(&rent->reporter, "%s ended with exit code %d", command.argv[0], end.exit_code);
    }
}

/* ---- the end ---- */

static void say_cost(const rent_session *rent)
{
    char cost[BUDGET_MONEY_BYTES] = "an amount that is not known";
    if (rent->result->cost_micro >= 0) {
        budget_money_show((rent->result->cost_micro + CENT - 1) / CENT * CENT, cost);
    }
    rent_say(&rent->reporter,
             "all of %s is ended, and proven. It cost about %s; what it cost is final with the "
             "bill: budget-service reconcile, or record-actual %s USD",
             rent->plan->claims->label, cost, rent->plan->claims->label);
}

static void end_all(rent_session *rent)
{
    char evidence[BASE_PATH_BYTES];
    rent_result *result = rent->result;
    const rent_plan *plan = rent->plan;
    const rent_ending ending = {.driver = plan->driver,
                                .client = rent->client,
                                .account = rent->account,
                                .label = plan->claims->label,
                                .jti = plan->claims->jti,
                                .instances_max = plan->claims->instances,
                                .ordered = rent->ordered,
                                .late_ns = base_deadline_after_ns(RENT_LATE_S * BASE_NS_PER_S),
                                .evidence_path = base_path_join(plan->directory, RENT_FILE_EVIDENCE,
                                                                evidence, NULL) == BASE_OK
                                                     ? evidence
                                                     : NULL,
                                .flags = plan->flags,
                                .is_watched = true,
                                .reporter = &rent->reporter};
    result->outcome = rent_end(&ending, &result->held);
    result->cost_micro = rent_held_cost(&result->held, rent->ordered,
                                        plan->claims->max_price_usd_micro_per_hour, rent->began_s);
    if (result->outcome == RENT_END_PROVEN) {
        say_cost(rent);
    }
    if (result->outcome == RENT_END_OPEN) {
        rent_say(&rent->reporter,
                 "instances of %s may still run and cost money: a process goes on ending them for "
                 "a day, and writes to %s/%s",
                 plan->claims->label, plan->directory, RENT_FILE_LOG);
        rent_watchdog_release(&rent->watchdog);
    } else {
        rent_watchdog_dismiss(&rent->watchdog);
    }
}

/* With the watchdog there. Returns an exit code. */
static int run_watched(rent_session *rent, const proto_keypair *job_key)
{
    base_error error = {0};
    int exit_code = BASE_EXIT_ERROR;
    const budget_verdict verdict = service_is_ready(rent, &error);
    if (verdict != BUDGET_GRANTED) {
        exit_code = budget_verdict_exit(verdict);
        say_nothing_was_created(rent, error.message);
    } else if (is_interrupted(rent, 0)) {
        exit_code = BASE_EXIT_SIGNAL_BASE + rent->signal;
        say_nothing_was_created(rent, "interrupted");
    } else if (!rent_watchdog_lives(&rent->watchdog)) {
        say_nothing_was_created(rent, "the watchdog has been killed");
    } else {
        exit_code = take_permit(rent, job_key);
    }
    if (!rent->result->created) {
        rent_watchdog_dismiss(&rent->watchdog);
    } else {
        if (create_all(rent) && wait_until_they_run(rent)) {
            run_command(rent);
        } else if (rent->signal != 0) {
            rent_say(&rent->reporter, "interrupted: ending what was created");
        }
        end_all(rent);
        exit_code = rent->result->outcome != RENT_END_PROVEN ? BASE_EXIT_NEEDS_ATTENTION
                    : rent->result->command_exit >= 0        ? rent->result->command_exit
                    : rent->signal != 0                      ? BASE_EXIT_SIGNAL_BASE + rent->signal
                                                             : BASE_EXIT_ERROR;
    }
    budget_client_close(rent->client);
    return exit_code;
}

int rent_run(const rent_plan *plan, rent_result *result)
{
    rent_session rent = {.plan = plan, .result = result};
    const rent_watched watched = {.client = plan->client,
                                  .driver = plan->driver,
                                  .claims = plan->claims,
                                  .account = rent.account,
                                  .directory = plan->directory,
                                  .flags = plan->flags};
    proto_keypair job_key;
    base_error error = {0};
    int exit_code = BASE_EXIT_ERROR;
    *result = (rent_result){.command_exit = -1};
    rent.reporter =
        (rent_reporter){.say = rent_print, .pause = pause_for, .found = keep_found, .user = &rent};
    rent_signals_block();
    const rent_outcome would = ask_vendor(&rent, &error);
    if (would != RENT_MADE) {
        say_nothing_was_created(&rent, error.message);
        return would == RENT_REFUSED ? BASE_EXIT_REFUSED : BASE_EXIT_ERROR;
    }
    base_status status = rent_directory_make(plan->directory, plan->token, &job_key, &error);
    const bool made = status == BASE_OK; /* another rent's stays as it is */
    if (status == BASE_OK) {
        status = rent_watchdog_start(&watched, &rent.watchdog, &error);
    }
    if (status == BASE_OK) {
        exit_code = run_watched(&rent, &job_key);
    } else {
        rent_say(&rent.reporter, "%s", error.message);
    }
    if (made && !result->created) {
        rent_directory_remove(plan->directory);
    }
    proto_wipe(&job_key, sizeof job_key);
    return exit_code;
}
