/* The commands init, serve and hook test. Run by the table of commands in options.c. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "budget/passphrase.h"
#include "budget/policy.h"
#include "budget/server.h"
#include "budget/service_files.h"
#include "budget/time.h"
#include "cli.h"
#include "key_store.h"

#define PASSPHRASE_OPTIONS (CLI_BIT(CLI_PASSPHRASE_FILE) | CLI_BIT(CLI_PASSPHRASE_FD))
#define PASSPHRASE_HELP                                                                            \
    "The passphrase comes from --passphrase-file, --passphrase-fd, the file budget-passphrase "    \
    "in\n"                                                                                         \
    "$CREDENTIALS_DIRECTORY, or the terminal."

/* No source at all is wrong usage; all else is an error. */
static int passphrase_exit(base_status status)
{
    return status == BASE_ERR_NOTFOUND ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
}

static int say_made(const cli_args *args, const char *dir, const char *kid)
{
    if (args->json) {
        return cli_object(json_pack("{s:s, s:s}", "dir", dir, "kid", kid));
    }
    (void)printf("made %s\n"
                 "  keys/%s.key\n"
                 "                       signs, under your passphrase\n"
                 "  keyring.json         public keys: what verifies tokens\n"
                 "  clients/request.key  may ask for money within the caps\n"
                 "  clients/admin.key    may set caps: keep it away from daily work\n"
                 "  policy.json          defaults and limits: read it\n"
                 "now: budget-service serve --dir %s\n",
                 dir, kid, dir);
    return BASE_EXIT_DONE;
}

/* The keys first, the ledger after them: its first checkpoint is signed. The keys that an init has left
 * which was broken off before it made a ledger are taken up. */
static base_status make_keys(key_store *store, const char *dir, const budget_passphrase *passphrase,
                             budget_secret_key **secret, base_error *reterr)
{
    base_status status = key_store_read(store, dir, reterr);
    if (status == BASE_OK) {
        budget_public_key *active = key_store_active(store);
        return active != NULL
                   ? key_store_open(store, active, passphrase, secret, reterr)
                   : base_fail(reterr, BASE_ERR_STATE, "%s has keys, but none that signs", dir);
    }
    if (status != BASE_ERR_NOTFOUND) {
        return status;
    }
    status = chmod(dir, 0700) == 0
                 ? key_store_make(store, passphrase, budget_time_now(), secret, reterr)
                 : base_fail_errno(reterr, errno, "cannot restrict %s to its owner", dir);
    return status == BASE_OK ? key_store_write(store, reterr) : status;
}

static int make_in(const cli_args *args, const char *dir, const budget_passphrase *passphrase)
{
    static key_store store;
    char ledger[BASE_PATH_BYTES];
    char curve[BASE_PATH_BYTES]; /* made last: its being there says that the rest is */
    budget_secret_key *secret = NULL;
    base_error error = {0};
    base_status status = base_path_join(dir, BUDGET_FILE_LEDGER, ledger, &error);
    if (status == BASE_OK) {
        status = base_path_join(dir, BUDGET_FILE_CURVE, curve, &error);
    }
    if (status == BASE_OK && access(ledger, F_OK) == 0) {
        return access(curve, F_OK) == 0
                   ? cli_error(args, BASE_EXIT_ERROR,
                               "%s has a service already: budget-service serve starts it, and "
                               "--dir names another directory",
                               dir)
                   : cli_error(args, BASE_EXIT_ERROR,
                               "%s has a ledger, and %s is missing: if an init was broken off, and "
                               "no service has run there, remove the directory and run init "
                               "again; else copy that file back from where you keep copies",
                               dir, curve);
    }
    if (status == BASE_OK) {
        status = make_keys(&store, dir, passphrase, &secret, &error);
    }
    if (status == BASE_OK) {
        status = budget_service_init(dir, budget_secret_key_bytes(secret), &error);
    }
    budget_secret_key_free(secret);
    return status == BASE_OK ? say_made(args, dir, key_store_active(&store)->kid)
                             : cli_status(args, &error);
}

/* Of two at once the second waits here, and finds the first one's service. */
static int make_service(const cli_args *args, const char *dir, const budget_passphrase *passphrase)
{
    int lock = -1;
    base_error error = {0};
    base_status status = base_mkdirs(dir, &error);
    if (status == BASE_OK) {
        status = key_store_lock(dir, &lock, &error);
    }
    const int exit_code =
        status == BASE_OK ? make_in(args, dir, passphrase) : cli_status(args, &error);
    key_store_unlock(lock);
    return exit_code;
}

static int run_init(const cli_args *args)
{
    char dir[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    const budget_passphrase_source source = cli_passphrase(args, true);
    budget_passphrase *passphrase = NULL;
    base_error error = {0};
    if (!cli_dir(args, dir, &exit_code)) {
        return exit_code;
    }
    const base_status status = budget_passphrase_open(&source, &passphrase, &error);
    if (status != BASE_OK) {
        return cli_error(args, passphrase_exit(status), "%s", error.message);
    }
    exit_code = make_service(args, dir, passphrase);
    budget_passphrase_close(passphrase);
    return exit_code;
}

/* What serve holds while it runs: the keys of the directory, opened once. */
typedef struct serving {
    const cli_args *args;
    budget_passphrase_source source;
    key_store store;
    budget_secret_key *secrets[BUDGET_KEYRING_KEYS_MAX]; /* by place in the keyring; NULL: none */
    bool no_source;
} serving;

/* Retired keys whose tokens may still be asked for again are opened as well,
 * where they are there. */
static base_status open_keys(serving *state, const budget_passphrase *passphrase,
                             const budget_public_key *active, base_error *reterr)
{
    const int64_t now_s = budget_time_now();
    for (int i = 0; i < state->store.keyring.count; i++) {
        const budget_public_key *key = &state->store.keyring.keys[i];
        const bool wanted = key == active || (key->revoked_at == 0 && key->not_after > now_s);
        if (!wanted) {
            continue;
        }
        const base_status status =
            key_store_open(&state->store, key, passphrase, &state->secrets[i], reterr);
        if (status != BASE_OK && (key == active || status != BASE_ERR_NOTFOUND)) {
            return status;
        }
    }
    return BASE_OK;
}

static base_status unlock(void *user, const unsigned char **secret, base_error *reterr)
{
    serving *state = user;
    budget_passphrase *passphrase = NULL;
    budget_public_key *active = key_store_active(&state->store);
    if (active == NULL) {
        return base_fail(reterr, BASE_ERR_STATE,
                         "the keyring has no key that signs: budget-service key rotate");
    }
    base_status status = budget_passphrase_open(&state->source, &passphrase, reterr);
    if (status != BASE_OK) {
        state->no_source = status == BASE_ERR_NOTFOUND;
        return status;
    }
    status = open_keys(state, passphrase, active, reterr);
    budget_passphrase_close(passphrase);
    if (status == BASE_OK) {
        *secret = budget_secret_key_bytes(state->secrets[active - state->store.keyring.keys]);
    }
    return status;
}

static const unsigned char *find(void *user, const char *kid)
{
    const serving *state = user;
    const budget_public_key *key = budget_keyring_find(&state->store.keyring, kid);
    const budget_secret_key *secret = key != NULL && key->revoked_at == 0
                                          ? state->secrets[key - state->store.keyring.keys]
                                          : NULL;
    return secret != NULL ? budget_secret_key_bytes(secret) : NULL;
}

static void release(void *user)
{
    serving *state = user;
    for (int i = 0; i < BUDGET_KEYRING_KEYS_MAX; i++) {
        budget_secret_key_free(state->secrets[i]);
        state->secrets[i] = NULL;
    }
}

static void ready(void *user, const char *endpoint, const char *redeem_endpoint)
{
    const serving *state = user;
    if (state->args->json) {
        (void)cli_object(json_pack("{s:b, s:s, s:s}", "ready", 1, "endpoint", endpoint,
                                   "redeem_endpoint", redeem_endpoint));
    } else {
        (void)printf("ready at %s, redeems at %s\n", endpoint, redeem_endpoint);
        (void)fflush(stdout);
    }
}

static int run_serve(const cli_args *args)
{
    static serving state;
    char dir[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    base_error error = {0};
    state.args = args;
    state.source = cli_passphrase(args, false);
    if (!cli_dir(args, dir, &exit_code) || !cli_export_dir(args, dir)) {
        return exit_code;
    }
    const base_status read = key_store_read(&state.store, dir, &error);
    if (read != BASE_OK) {
        return read == BASE_ERR_NOTFOUND
                   ? cli_error(args, BASE_EXIT_ERROR, "%s; run: budget-service init --dir %s",
                               error.message, dir)
                   : cli_status(args, &error);
    }
    const budget_serve_options options = {
        .dir = dir,
        .listen = args->options[CLI_LISTEN],
        .listen_redeem = args->options[CLI_LISTEN_REDEEM],
        .accept_checkpoint = args->options[CLI_ACCEPT_CHECKPOINT],
        .accept_audit = args->options[CLI_ACCEPT_AUDIT],
        .signer = {.unlock = unlock, .find = find, .release = release, .user = &state},
        .ready = ready,
        .ready_user = &state,
    };
    base_log_with_time();
    const base_status status = budget_serve(&options, &error);
    release(&state);
    if (status == BASE_OK) {
        return BASE_EXIT_DONE;
    }
    exit_code = state.no_source ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
    if (status == BASE_ERR_MISMATCH) { /* the ledger is not the one that was checkpointed */
        exit_code = BASE_EXIT_NEEDS_ATTENTION;
    }
    return cli_error(args, exit_code, "%s", error.message);
}

/* Runs the policy's hook once, as an alarm does. */
static int run_hook_test(const cli_args *args)
{
    char dir[BASE_PATH_BYTES];
    char path[BASE_PATH_BYTES];
    char json[128];
    char text[BASE_ERROR_MESSAGE_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    int hook_exit = 0;
    budget_policy *policy = NULL;
    base_error error = {0};
    if (!cli_dir(args, dir, &exit_code) || !cli_export_dir(args, dir)) {
        return exit_code;
    }
    base_status status = base_path_join(dir, BUDGET_FILE_POLICY, path, &error);
    if (status == BASE_OK) {
        status = budget_policy_read(path, &policy, &error);
    }
    const char *const *command = status == BASE_OK ? budget_policy_hook(policy) : NULL;
    if (status == BASE_OK && command == NULL) {
        status = base_fail(&error, BASE_ERR_INVALID,
                           "%s has no \"hook\", so nobody hears an alarm: name a program in it, as "
                           "in \"hook\": [\"/path/to/program\"]",
                           path);
    }
    if (status == BASE_OK) {
        (void)snprintf(json, sizeof json, "{\"at\":\"%s\",\"event\":\"test\"}",
                       cli_time(budget_time_now()));
        status = budget_hook_try(command, json, &hook_exit, text, &error);
    }
    budget_policy_destroy(policy);
    if (status != BASE_OK) {
        return cli_status(args, &error);
    }
    exit_code = hook_exit == 0 ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
    if (args->json) {
        (void)cli_object(json_pack("{s:i, s:s, s:i}", "hook_exit", hook_exit, "message", text,
                                   "exit", exit_code));
    } else {
        (void)printf("%s\n", text);
    }
    return exit_code;
}

static const cli_command commands[] = {
    {.name = "init",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR) | PASSPHRASE_OPTIONS,
     .summary = "make keys, ledger and policy",
     .details = PASSPHRASE_HELP,
     .run = run_init},
    {.name = "serve",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR) | PASSPHRASE_OPTIONS | CLI_BIT(CLI_LISTEN) |
                 CLI_BIT(CLI_LISTEN_REDEEM) | CLI_BIT(CLI_ACCEPT_CHECKPOINT) |
                 CLI_BIT(CLI_ACCEPT_AUDIT),
     .summary = "run the service; prints one line when it is ready",
     .details = PASSPHRASE_HELP,
     .run = run_serve},
    {.name = "hook test",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR),
     .summary = "run the policy's hook once, and say how it ended",
     .details =
         "Its standard input is {\"at\":TIME,\"event\":\"test\"}. Run this as the user that the "
         "service runs as.",
     .run = run_hook_test},
};
const cli_group cli_service_group = {"The service", commands, sizeof commands / sizeof commands[0]};
