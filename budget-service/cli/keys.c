/* The commands key list, rotate, revoke and export. Run by the table of commands in options.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "budget/policy.h"
#include "budget/secret_file.h"
#include "budget/service_files.h"
#include "budget/time.h"
#include "cli.h"
#include "directory_lock.h"
#include "key_store.h"

enum { CLOCK_SLACK_S = 600 }; /* how far clocks may be apart, when a key's last token ends */

static bool open_store(const cli_args *args, key_store *store, int *exit_code)
{
    char dir[BASE_PATH_BYTES];
    base_error error = {0};
    if (!cli_dir(args, dir, exit_code)) {
        return false;
    }
    if (key_store_read(store, dir, &error) != BASE_OK) {
        *exit_code = cli_status(args, &error);
        return false;
    }
    return true;
}

static const char *key_state(const budget_public_key *key)
{
    return key->revoked_at != 0 ? "revoked" : (key->retired_at != 0 ? "retired" : "signs");
}

static json_t *key_json(const budget_public_key *key)
{
    char text[BUDGET_PASERK_PUBLIC_BYTES];
    budget_paserk_public(key->key, text);
    json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "kid", key->kid, "key", text, "state",
                               key_state(key), "created_at", cli_time(key->created_at));
    if (key->not_after != 0) {
        (void)json_object_set_new(object, "not_after", json_string(cli_time(key->not_after)));
    }
    return object;
}

static void print_key(const budget_public_key *key)
{
    (void)printf("%s  %-7s  made %s  ", key->kid, key_state(key), cli_time(key->created_at));
    if (key->revoked_at != 0) {
        (void)printf("verifies nothing since %s\n", cli_time(key->revoked_at));
    } else {
        (void)printf("verifies until %s\n",
                     key->not_after != 0 ? cli_time(key->not_after) : "further notice");
    }
}

static int run_key_list(const cli_args *args)
{
    static key_store store;
    int exit_code = BASE_EXIT_USAGE;
    if (!open_store(args, &store, &exit_code)) {
        return exit_code;
    }
    json_t *keys = json_array();
    for (int i = 0; i < store.keyring.count; i++) {
        const budget_public_key *key = &store.keyring.keys[i];
        if (args->json) {
            (void)json_array_append_new(keys, key_json(key));
        } else {
            print_key(key);
        }
    }
    exit_code = args->json ? cli_object(json_pack("{s:O}", "keys", keys)) : BASE_EXIT_DONE;
    json_decref(keys);
    return exit_code;
}

/* How long after its issue a token may be redeemed first, by the directory's policy. */
static base_status token_seconds(const char *dir, int64_t *seconds, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    budget_policy *policy = NULL;
    base_status status = base_path_join(dir, BUDGET_FILE_POLICY, path, reterr);
    if (status == BASE_OK) {
        status = budget_policy_read(path, &policy, reterr);
    }
    if (status == BASE_OK) {
        *seconds = budget_policy_token_seconds(policy);
        budget_policy_destroy(policy);
    } else if (status == BASE_ERR_NOTFOUND) {
        *seconds = BUDGET_POLICY_TOKEN_S;
        return BASE_OK;
    }
    return status;
}

static base_status rotate_locked(key_store *store, const budget_passphrase *passphrase,
                                 base_error *reterr)
{
    const int64_t now_s = budget_time_now();
    int64_t seconds = 0;
    budget_secret_key *opened = NULL;
    budget_secret_key *made = NULL;
    budget_public_key *active = key_store_active(store);
    base_status status = token_seconds(store->dir, &seconds, reterr);
    if (status == BASE_OK && active != NULL) {
        /* the same passphrase for all keys: serve opens them with one */
        status = key_store_open(store, active, passphrase, &opened, reterr);
        budget_secret_key_free(opened);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (active != NULL) {
        active->retired_at = now_s;
        active->not_after = now_s + seconds + CLOCK_SLACK_S;
    }
    status = key_store_make(store, passphrase, now_s, &made, reterr);
    budget_secret_key_free(made);
    return status == BASE_OK ? key_store_write(store, reterr) : status;
}

/* A key may have been revoked while the passphrase was asked for. */
static base_status rotate(key_store *store, const budget_passphrase *passphrase, base_error *reterr)
{
    int lock = -1;
    base_status status = key_store_begin(store, &lock, reterr);
    status = status == BASE_OK ? rotate_locked(store, passphrase, reterr) : status;
    key_store_unlock(lock);
    return status;
}

static int run_key_rotate(const cli_args *args)
{
    static key_store store;
    int lock = -1;
    int exit_code = BASE_EXIT_USAGE;
    budget_passphrase *passphrase = NULL;
    base_error error = {0};
    if (!open_store(args, &store, &exit_code)) {
        return exit_code;
    }
    if (directory_lock(store.dir, &lock, &error) != BASE_OK) {
        return cli_error(args, BASE_EXIT_ERROR, "%s: stop the service, rotate, start it again",
                         error.message);
    }
    const budget_passphrase_source source = cli_passphrase(args, false);
    base_status status = budget_passphrase_open(&source, &passphrase, &error);
    exit_code = status == BASE_ERR_NOTFOUND ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
    if (status == BASE_OK) {
        status = rotate(&store, passphrase, &error);
        budget_passphrase_close(passphrase);
    }
    directory_unlock(lock);
    if (status != BASE_OK) {
        return cli_error(args, exit_code, "%s", error.message);
    }
    const budget_public_key *active = key_store_active(&store);
    if (args->json) {
        return cli_object(json_pack("{s:s}", "kid", active->kid));
    }
    (void)printf("%s signs from now on; send keyring.json to whoever verifies (as root: "
                 "install-keyring)\n",
                 active->kid);
    return BASE_EXIT_DONE;
}

static base_status revoke_key(key_store *store, const char *kid, base_error *reterr)
{
    int lock = -1;
    base_status status = key_store_begin(store, &lock, reterr);
    const budget_public_key *found =
        status == BASE_OK ? budget_keyring_find(&store->keyring, kid) : NULL;
    if (found != NULL) {
        budget_public_key *key = &store->keyring.keys[found - store->keyring.keys];
        key->revoked_at = key->revoked_at != 0 ? key->revoked_at : budget_time_now();
        status = key_store_write(store, reterr);
    } else if (status == BASE_OK) {
        status = base_fail(reterr, BASE_ERR_NOTFOUND,
                           "the keyring has no key %s: budget-service key list has them", kid);
    }
    key_store_unlock(lock);
    return status;
}

static int run_key_revoke(const cli_args *args)
{
    static key_store store;
    int exit_code = BASE_EXIT_USAGE;
    base_error error = {0};
    if (!open_store(args, &store, &exit_code)) {
        return exit_code;
    }
    if (revoke_key(&store, args->operands[0], &error) != BASE_OK) {
        return cli_status(args, &error);
    }
    const budget_public_key *key = budget_keyring_find(&store.keyring, args->operands[0]);
    if (args->json) {
        return cli_object(
            json_pack("{s:s, s:s}", "kid", key->kid, "revoked_at", cli_time(key->revoked_at)));
    }
    /* the service starts only with a key that signs, so a new one is made in between */
    (void)printf("%s verifies nothing any more; %sand send keyring.json to whoever verifies (as "
                 "root: install-keyring)\n",
                 key->kid,
                 key_store_active(&store) != NULL
                     ? ""
                     : "stop the service, run budget-service key rotate, start it again, ");
    return BASE_EXIT_DONE;
}

static int run_key_export(const cli_args *args)
{
    static key_store store;
    int exit_code = BASE_EXIT_USAGE;
    char *text = NULL;
    size_t text_bytes = 0;
    base_error error = {0};
    if (!open_store(args, &store, &exit_code)) {
        return exit_code;
    }
    const char *out = args->options[CLI_OUT];
    if (out != NULL && budget_keyring_write(out, &store.keyring, &error) != BASE_OK) {
        return cli_status(args, &error);
    }
    if (out != NULL) {
        return args->json ? cli_object(json_pack("{s:s}", "out", out)) : BASE_EXIT_DONE;
    }
    if (budget_keyring_format(&store.keyring, &text, &text_bytes, &error) != BASE_OK) {
        return cli_status(args, &error);
    }
    exit_code = BASE_EXIT_DONE;
    if (args->json) {
        exit_code = cli_object(json_loadb(text, text_bytes, 0, NULL));
    } else {
        (void)puts(text);
    }
    free(text);
    return exit_code;
}

/* The directory's keyring, read as it is: root takes it from the service's user, who owns both. */
static base_status read_for_install(const char *dir, budget_keyring *keyring, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    struct stat directory;
    struct stat file;
    void *text = NULL;
    size_t text_bytes = 0;
    base_status status = base_path_join(dir, BUDGET_FILE_KEYRING, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (stat(dir, &directory) != 0 || stat(path, &file) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", path);
    }
    if (file.st_uid != directory.st_uid || (file.st_mode & 022) != 0 ||
        (directory.st_mode & 022) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "%s: others than the owner of %s may have written it; nothing was "
                         "installed",
                         path, dir);
    }
    status = base_file_read(path, BUDGET_KEYRING_BYTES_MAX, &text, &text_bytes, reterr);
    if (status == BASE_OK) {
        status = budget_keyring_parse(text, text_bytes, keyring, reterr);
        status = status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
    }
    free(text);
    return status;
}

/* Root's, readable by all, in a directory of root's. */
static base_status install(const budget_keyring *keyring, base_error *reterr)
{
    char dir[] = BUDGET_KEYRING_ANCHOR;
    *strrchr(dir, '/') = '\0';
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make %s", dir);
    }
    base_status status = budget_trusted_directory_check(dir, reterr);
    if (status == BASE_OK) {
        status = budget_keyring_write(BUDGET_KEYRING_ANCHOR, keyring, reterr);
    }
    if (status == BASE_OK && (chmod(dir, 0755) != 0 || chmod(BUDGET_KEYRING_ANCHOR, 0644) != 0)) {
        status = base_fail_errno(reterr, errno, "cannot let all read %s", BUDGET_KEYRING_ANCHOR);
    }
    return status;
}

static int run_install_keyring(const cli_args *args)
{
    static budget_keyring keyring;
    char dir[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    base_error error = {0};
    if (!cli_dir(args, dir, &exit_code)) {
        return exit_code;
    }
    if (geteuid() != 0) {
        return cli_error(args, BASE_EXIT_USAGE,
                         "only root installs a keyring: whoever launches jobs must not be able to");
    }
    base_status status = read_for_install(dir, &keyring, &error);
    if (status == BASE_OK) {
        status = install(&keyring, &error);
    }
    if (status != BASE_OK) {
        return cli_status(args, &error);
    }
    if (args->json) {
        return cli_object(
            json_pack("{s:s, s:i}", "installed", BUDGET_KEYRING_ANCHOR, "keys", keyring.count));
    }
    (void)printf("%s: ranks on this machine accept the tokens of these keys and no others\n",
                 BUDGET_KEYRING_ANCHOR);
    for (int i = 0; i < keyring.count; i++) {
        (void)printf("  %s  %s\n", keyring.keys[i].kid, key_state(&keyring.keys[i]));
    }
    return BASE_EXIT_DONE;
}

static const cli_command commands[] = {
    {.name = "key list",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR),
     .summary = "the signing keys, and until when they verify",
     .run = run_key_list},
    {.name = "key rotate",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR) | CLI_BIT(CLI_PASSPHRASE_FILE) | CLI_BIT(CLI_PASSPHRASE_FD),
     .summary = "make a new signing key (stop the service first)",
     .details = "The old one verifies until the last token it can have signed has expired. From "
                "then on its "
                "receipts do not verify\neither: redeem again.",
     .run = run_key_rotate},
    {.name = "key revoke",
     .operands = "KID",
     .operand_count = 1,
     .optional = CLI_BIT(CLI_DIR),
     .summary = "let a key verify nothing any more",
     .run = run_key_revoke},
    {.name = "key export",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR) | CLI_BIT(CLI_OUT),
     .summary = "the keyring: what a verifier needs",
     .run = run_key_export},
    {.name = "install-keyring",
     .operands = "",
     .optional = CLI_BIT(CLI_DIR),
     .summary = "as root: let this machine's ranks accept these keys and no others",
     .details = "Copies DIR/keyring.json to " BUDGET_KEYRING_ANCHOR ", which every rank believes "
                "before what its launcher\nnames. Again after each key rotate and key revoke.",
     .run = run_install_keyring},
};
const cli_group cli_key_group = {"Keys", commands, sizeof commands / sizeof commands[0]};
