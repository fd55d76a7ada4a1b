/* The commands rent and end: instances at a vendor, through its driver. Run by the table of commands in
 * options.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "cli.h"
#include "clock.h"
#include "directory.h"
#include "rent.h"

static const char *const outcome_names[] = {
    [RENT_END_PROVEN] = "proven", [RENT_END_UNPROVEN] = "unproven", [RENT_END_OPEN] = "open"};

/* The driver of a vendor. */
static bool find_driver(const cli_args *args, const char *vendor, rent_driver *driver)
{
    base_error error = {0};
    const char *file = args->options[CLI_DRIVER];
    if (file == NULL && strcmp(vendor, BUDGET_VENDOR_ANY) == 0) {
        (void)cli_error(args, BASE_EXIT_USAGE,
                        "the token names no vendor: authorize with --vendor NAME, or say "
                        "--driver FILE");
        return false;
    }
    if (strcmp(vendor, "local") == 0) {
        (void)cli_error(args, BASE_EXIT_USAGE,
                        "the token is for this machine, and nothing is rented: launcher --token");
        return false;
    }
    if (rent_driver_find(vendor, file, driver, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s", error.message);
        return false;
    }
    return true;
}

/* Where the rent is kept: --out, or a place beside the client's key. */
static bool find_directory(const cli_args *args, const char *dir, const char *jti,
                           char directory[BASE_PATH_BYTES])
{
    const char *out = args->options[CLI_OUT];
    char given[BASE_PATH_BYTES];
    base_error error = {0};
    base_status status = BASE_OK;
    if (out == NULL) {
        status = rent_directory_default(dir, jti, given, &error);
        out = given;
    }
    if (status == BASE_OK) {
        status = base_path_absolute(out, directory, BASE_PATH_BYTES, &error);
    }
    if (status != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s; --out names another place", error.message);
    }
    return status == BASE_OK;
}

enum { FLAGS_BYTES = 3 * BASE_PATH_BYTES };

/* What `end LABEL` takes for the same rent, behind its label. */
static void put_flags(const cli_args *args, const char *directory, char flags[FLAGS_BYTES])
{
    const bool has_dir = args->options[CLI_DIR] != NULL;
    const bool has_driver = args->options[CLI_DRIVER] != NULL;
    const bool has_out = args->options[CLI_OUT] != NULL;
    (void)snprintf(flags, FLAGS_BYTES, "%s%s%s%s%s%s", has_dir ? " --dir " : "",
                   has_dir ? args->options[CLI_DIR] : "", has_driver ? " --driver " : "",
                   has_driver ? args->options[CLI_DRIVER] : "", has_out ? " --out " : "",
                   has_out ? directory : "");
}

/* A mistyped one is to cost nothing. */
static bool find_command(const cli_args *args)
{
    char path[BASE_PATH_BYTES];
    base_error error = {0};
    if (base_path_program(args->program[0], path, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s", error.message);
        return false;
    }
    return true;
}

/* The first line of --ssh-key; empty where none is named. */
static bool read_ssh_key(const cli_args *args, char key[RENT_ORDER_TEXT_BYTES])
{
    void *data = NULL;
    size_t size_bytes = 0;
    base_error error = {0};
    const char *path = args->options[CLI_SSH_KEY];
    key[0] = '\0';
    if (path == NULL) {
        return true;
    }
    if (base_file_read(path, RENT_ORDER_TEXT_BYTES - 1, &data, &size_bytes, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s", error.message);
        return false;
    }
    (void)snprintf(key, RENT_ORDER_TEXT_BYTES, "%.*s", (int)strcspn(data, "\r\n"), (char *)data);
    free(data);
    if (strncmp(key, "ssh-", 4) != 0 && strncmp(key, "ecdsa-", 6) != 0 &&
        strncmp(key, "sk-", 3) != 0) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s is no public key of ssh: FILE.pub", path);
        return false;
    }
    return true;
}

static json_t *ids_json(const rent_held *held)
{
    json_t *ids = json_array();
    for (int i = 0; i < held->count; i++) {
        (void)json_array_append_new(ids, json_string(held->items[i].id));
    }
    return ids;
}

static int show_rent(const cli_args *args, const budget_claims *claims, const rent_result *result,
                     int exit_code)
{
    if (!args->json) {
        return exit_code;
    }
    json_t *object = json_pack("{s:s, s:s, s:b, s:o, s:i}", "label", claims->label, "vendor",
                               claims->vendor, "created", result->created, "instance_ids",
                               ids_json(&result->held), "exit", exit_code);
    (void)json_object_set_new(object, "command_exit",
                              result->command_exit >= 0 ? json_integer(result->command_exit)
                                                        : json_null());
    if (result->created) {
        (void)json_object_set_new(object, "end", json_string(outcome_names[result->outcome]));
        (void)json_object_set_new(object, "estimated_usd_micro",
                                  result->cost_micro >= 0 ? json_integer(result->cost_micro)
                                                          : json_null());
    }
    const int printed = cli_object(object);
    return exit_code == BASE_EXIT_DONE ? printed : exit_code;
}

static int run_rent(const cli_args *args)
{
    static rent_result result;
    static budget_claims claims;
    char token[BUDGET_TOKEN_BYTES];
    char ssh_key[RENT_ORDER_TEXT_BYTES];
    char dir[BASE_PATH_BYTES];
    char directory[BASE_PATH_BYTES];
    static char flags[FLAGS_BYTES];
    size_t token_bytes = 0;
    rent_driver driver;
    budget_client_options client;
    int exit_code = BASE_EXIT_USAGE;
    if (!cli_read_token(args, token, &token_bytes, &exit_code)) {
        return exit_code;
    }
    if (!cli_token_claims(token, &claims)) {
        return cli_error(args, BASE_EXIT_BAD_TOKEN, "this is no token");
    }
    if (!find_driver(args, claims.vendor, &driver) || !read_ssh_key(args, ssh_key) ||
        !cli_client_options(args, "request", dir, &client, &exit_code)) {
        return exit_code;
    }
    if (!find_directory(args, dir, claims.jti, directory) || !find_command(args)) {
        return BASE_EXIT_USAGE;
    }
    put_flags(args, directory, flags);
    if (!cli_export_dir(args, dir)) {
        return BASE_EXIT_ERROR;
    }
    const rent_plan plan = {.token = token,
                            .claims = &claims,
                            .driver = &driver,
                            .client = &client,
                            .directory = directory,
                            .flags = flags,
                            .image = args->values.image,
                            .ssh_public_key = ssh_key,
                            .disk_gb = args->values.disk_gb,
                            .command = args->program,
                            .command_stdout_fd = args->json ? STDERR_FILENO : STDOUT_FILENO};
    exit_code = rent_run(&plan, &result);
    return show_rent(args, &claims, &result, exit_code);
}

/* ---- end ---- */

/* The run that has the label. */
typedef struct wanted_run {
    const char *label;
    bool found;
    budget_entry entry; /* without its list of instances */
    rent_held held;     /* which are here */
    char directory[BASE_PATH_BYTES];
} wanted_run;

static void take_entry(void *user, const budget_entry *entry)
{
    wanted_run *wanted = user;
    if (strcmp(entry->label, wanted->label) != 0) {
        return;
    }
    wanted->found = true;
    wanted->entry = *entry;
    if (entry->read_at != 0) {
        rent_time_set(entry->read_at);
    }
    wanted->entry.instance_ids = (budget_texts){0};
    for (size_t i = 0; i < entry->instance_ids.count; i++) {
        rent_instance instance = {.price_usd_micro = -1};
        (void)snprintf(instance.id, sizeof instance.id, "%s", entry->instance_ids.texts[i]);
        (void)rent_hold(&wanted->held, &instance);
    }
}

static bool pause_for(void *user, int milliseconds)
{
    (void)user;
    rent_sleep(milliseconds);
    return true;
}

/* False: there is nothing to end, and *exit_code says what was said. */
static bool has_what_to_end(const cli_args *args, const wanted_run *wanted, int *exit_code)
{
    const budget_entry *entry = &wanted->entry;
    if (!wanted->found) {
        *exit_code = cli_error(args, BASE_EXIT_REFUSED, "the ledger has no %s", wanted->label);
        return false;
    }
    if (entry->began_at == 0 && wanted->held.count == 0) {
        *exit_code = cli_error(args, BASE_EXIT_REFUSED,
                               "nothing was created for %s; what is reserved returns with: "
                               "budget-service void %s",
                               wanted->label, wanted->label);
        return false;
    }
    return true;
}

/* A rent that was killed may have ordered the last one so long after the permit, by the service's
 * clock: this computer's may be wrong. */
static int64_t late_ns(const budget_entry *entry)
{
    const int64_t permit_s =
        entry->redeemed_at > entry->began_at ? entry->redeemed_at : entry->began_at;
    const int64_t passed_s = entry->read_at > permit_s ? entry->read_at - permit_s : 0;
    const int64_t left_s = rent_order_end_s(0, entry->instances) + RENT_LATE_S - passed_s;
    return base_deadline_after_ns((left_s > 0 ? left_s : 0) * BASE_NS_PER_S);
}

/* The directory of its rent, with what that knows. It is made where there is none. */
static bool open_directory(const cli_args *args, wanted_run *wanted, char evidence[BASE_PATH_BYTES])
{
    char dir[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    base_error error = {0};
    if (!cli_dir(args, dir, &exit_code) ||
        !find_directory(args, dir, wanted->entry.jti, wanted->directory)) {
        return false;
    }
    base_status status = BASE_OK;
    if (mkdir(wanted->directory, 0700) != 0 && errno != EEXIST) {
        status = base_fail_errno(&error, errno, "cannot make %s", wanted->directory);
    }
    if (status == BASE_OK) {
        status = rent_directory_read(wanted->directory, wanted->entry.jti, &wanted->held, &error);
        if (status != BASE_OK && status != BASE_ERR_STATE) { /* the end is worth more than names */
            rent_print(NULL, error.message);
            status = BASE_OK;
        }
    }
    if (status == BASE_OK) {
        status = base_path_join(wanted->directory, RENT_FILE_EVIDENCE, evidence, &error);
    }
    if (status != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s; --out names another place", error.message);
    }
    return status == BASE_OK;
}

/* For which account of the vendor the driver speaks; empty if it does not say. False: the instances are in another one,
 * which knows nothing of them. */
static bool ask_account(const cli_args *args, const budget_entry *entry, const rent_driver *driver,
                        char account[BUDGET_VENDOR_ACCOUNT_BYTES])
{
    base_error error = {0};
    const char *known = entry->vendor_account;
    rent_driver_is_about(known);
    if (rent_driver_account(driver, account, &error) != BASE_OK) {
        const rent_reporter reporter = {.say = rent_print};
        rent_say(&reporter,
                 "%s; without its account, what it does not find may be in another: %s is ended, "
                 "and that is not proven",
                 error.message, entry->label);
        return true;
    }
    if (known[0] == '\0' || strcmp(known, account) == 0) {
        return true;
    }
    (void)cli_error(args, BASE_EXIT_NEEDS_ATTENTION,
                    "the instances of %s are in the account %s of %s, and the driver speaks for "
                    "%s: nothing is ended, "
                    "and its money stays reserved; run this with the key of %s",
                    entry->label, known, driver->vendor, account, known);
    return false;
}

/* So that the next end knows the name of an instance that the vendor has forgotten by then. */
static void keep_found(void *user)
{
    const wanted_run *wanted = user;
    const rent_whose whose = {
        .label = wanted->entry.label, .jti = wanted->entry.jti, .until_s = wanted->entry.deadline};
    base_error error = {0};
    if (rent_directory_write(wanted->directory, &whose, &wanted->held, &error) != BASE_OK) {
        rent_print(NULL, error.message);
    }
}

static int end_it(const cli_args *args, budget_client *client, wanted_run *wanted)
{
    const rent_reporter reporter = {
        .say = rent_print, .pause = pause_for, .found = keep_found, .user = wanted};
    rent_driver driver;
    char evidence[BASE_PATH_BYTES];
    char account[BUDGET_VENDOR_ACCOUNT_BYTES];
    static char flags[FLAGS_BYTES];
    const budget_entry *entry = &wanted->entry;
    if (!find_driver(args, entry->vendor, &driver) || !open_directory(args, wanted, evidence)) {
        return BASE_EXIT_USAGE;
    }
    if (!ask_account(args, entry, &driver, account)) {
        return BASE_EXIT_NEEDS_ATTENTION;
    }
    put_flags(args, wanted->directory, flags);
    const rent_ending ending = {.driver = &driver,
                                .client = client,
                                .account = account,
                                .is_unplaced = entry->vendor_account[0] == '\0',
                                .label = entry->label,
                                .jti = entry->jti,
                                .instances_max = entry->instances,
                                .ordered = entry->instances,
                                .late_ns = late_ns(entry),
                                .evidence_path = evidence,
                                .flags = flags,
                                .reporter = &reporter};
    const rent_end_outcome outcome = rent_end(&ending, &wanted->held);
    const int exit_code = outcome == RENT_END_PROVEN ? BASE_EXIT_DONE : BASE_EXIT_NEEDS_ATTENTION;
    if (args->json) {
        (void)cli_object(json_pack("{s:s, s:s, s:o, s:i}", "label", entry->label, "end",
                                   outcome_names[outcome], "instance_ids", ids_json(&wanted->held),
                                   "exit", exit_code));
    } else if (outcome == RENT_END_PROVEN) {
        (void)printf("%s: ended, and proven\n", entry->label);
    }
    return exit_code;
}

static int ask_end(const cli_args *args, budget_client *client)
{
    static wanted_run wanted; /* large */
    base_error why = {0};
    int exit_code = BASE_EXIT_DONE;
    wanted = (wanted_run){.label = args->operands[0]};
    const budget_verdict verdict = budget_list(client, NULL, take_entry, &wanted, &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    return has_what_to_end(args, &wanted, &exit_code) ? end_it(args, client, &wanted) : exit_code;
}

static const cli_command commands[] = {
    {.name = "rent",
     .operands = "TOKEN",
     .operand_count = 1,
     .program = true,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_DRIVER) | CLI_BIT(CLI_IMAGE) |
                 CLI_BIT(CLI_SSH_KEY) | CLI_BIT(CLI_DISK) | CLI_BIT(CLI_OUT),
     .summary = "create a token's instances, run COMMAND while they live, end them",
     .details =
         "The instances are ended, and their end is proven, when COMMAND has ended, after Ctrl-C, "
         "at the\ndeadline, and by a process of its own if this one is killed. In COMMAND's "
         "environment RINGFENCE_HOST,\nRINGFENCE_PORT and RINGFENCE_USER say where ssh reaches the "
         "first one, and RINGFENCE_RENT_DIR has token,\njob.key and instances.json; it is --out, "
         "or "
         "DIR/rents/JTI. The exit code is COMMAND's, or 8 if the\nend is not proven.",
     .run = run_rent},
    {.name = "end",
     .operands = "LABEL",
     .operand_count = 1,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_DRIVER) | CLI_BIT(CLI_OUT),
     .summary = "end all instances that LABEL has at its vendor, and prove it",
     .details = "Tries again until they are gone. The directory of its rent (--out, or "
                "DIR/rents/JTI) knows the names of\ninstances that the vendor has forgotten, and "
                "gets evidence.json.",
     .key = "request",
     .ask = ask_end},
};
const cli_group cli_rent_group = {"Instances", commands, sizeof commands / sizeof commands[0]};
