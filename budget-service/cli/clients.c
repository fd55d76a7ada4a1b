/* The commands client add, revoke and list, and clock repair. Run by the table of commands in
 * options.c. */
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "proto/digest.h"
#include "proto/key.h"

/* The key that the same question has made before, when it was not answered. */
static base_status take_up_key(const char *path, const char *name,
                               const budget_service_address *address, budget_client_key *key,
                               base_error *reterr)
{
    const base_status status = budget_client_key_read(path, key, reterr);
    proto_wipe(key->keys.secret_key, sizeof key->keys.secret_key);
    if (status != BASE_OK) {
        return status;
    }
    const bool is_it =
        strcmp(key->name, name) == 0 &&
        memcmp(key->service_public_key, address->public_key, sizeof key->service_public_key) == 0;
    return is_it ? BASE_OK
                 : base_fail(reterr, BASE_ERR_STATE, "%s is there already, and not of %s", path,
                             name);
}

/* Makes the pair and its file first: a client that is added without a file could never be used.
 * *made: the file is new. */
static base_status make_client_key(const cli_args *args, const char *dir, const char *path,
                                   budget_client_key *key, bool *made, base_error *reterr)
{
    budget_service_address address;
    base_status status = budget_service_address_read(dir, &address, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (args->options[CLI_REQUEST_ID] != NULL && access(path, F_OK) == 0) {
        return take_up_key(path, args->operands[0], &address, key, reterr);
    }
    memcpy(key->service_public_key, address.public_key, sizeof key->service_public_key);
    proto_keypair_make(&key->keys);
    (void)snprintf(key->name, sizeof key->name, "%s", args->operands[0]);
    status = budget_client_key_write(path, key, reterr);
    *made = status == BASE_OK;
    proto_wipe(key->keys.secret_key, sizeof key->keys.secret_key);
    return status;
}

static int add_client(const cli_args *args, const char *dir, budget_client *client)
{
    char path[BASE_PATH_BYTES + BUDGET_NAME_BYTES + sizeof "/clients/.key"];
    budget_client_key key = {0};
    bool made = false;
    base_error why = {0};
    (void)snprintf(path, sizeof path, "%s/clients/%s.key", dir, args->operands[0]);
    const char *out = args->options[CLI_OUT] != NULL ? args->options[CLI_OUT] : path;
    if (make_client_key(args, dir, out, &key, &made, &why) != BASE_OK) {
        return cli_status(args, &why);
    }
    const budget_verdict verdict = budget_client_add(
        client, args->operands[0], args->options[CLI_ROLE], key.keys.public_key, &why);
    if (verdict != BUDGET_GRANTED) {
        if (verdict != BUDGET_UNKNOWN && made) {
            (void)unlink(out);
        }
        return cli_refused(args, client, verdict, &why, NULL);
    }
    if (args->json) {
        return cli_object(json_pack("{s:s, s:s, s:s}", "client", args->operands[0], "role",
                                    args->options[CLI_ROLE], "key", out));
    }
    (void)printf("%s may ask with the role %s; its key: %s\n", args->operands[0],
                 args->options[CLI_ROLE], out);
    return BASE_EXIT_DONE;
}

static int run_client_add(const cli_args *args)
{
    char dir[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_USAGE;
    const char *role = args->options[CLI_ROLE];
    if (!budget_name_ok(args->operands[0], BUDGET_NAME_BYTES, false)) {
        return cli_error(args, BASE_EXIT_USAGE, "'%s' is no name", args->operands[0]);
    }
    if (strcmp(role, "request") != 0 && strcmp(role, "reconcile") != 0 &&
        strcmp(role, "admin") != 0) {
        return cli_error(args, BASE_EXIT_USAGE, "--role: request, reconcile or admin");
    }
    if (!cli_dir(args, dir, &exit_code)) {
        return exit_code;
    }
    budget_client *client = cli_client(args, "admin", &exit_code);
    if (client != NULL) {
        exit_code = add_client(args, dir, client);
        budget_client_close(client);
    }
    return exit_code;
}

static int revoke_client(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    const budget_verdict verdict = budget_client_revoke(client, args->operands[0], &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    if (args->json) {
        return cli_object(json_pack("{s:s, s:b}", "client", args->operands[0], "revoked", 1));
    }
    (void)printf("%s may ask for nothing any more\n", args->operands[0]);
    return BASE_EXIT_DONE;
}

static void list_client(void *user, const budget_client_info *info)
{
    json_t *clients = user;
    char hex[PROTO_DIGEST_HEX_BYTES];
    proto_digest_hex(info->public_key, hex);
    if (clients != NULL) {
        (void)json_array_append_new(clients, json_pack("{s:s, s:s, s:s, s:b}", "client", info->name,
                                                       "role", info->role, "public_key", hex,
                                                       "revoked", info->revoked));
    } else {
        (void)printf("%-20s %-10s %s%s\n", info->name, info->role, hex,
                     info->revoked ? "  revoked" : "");
    }
}

static int list(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    json_t *clients = args->json ? json_array() : NULL;
    const budget_verdict verdict = budget_client_list(client, list_client, clients, &why);
    return cli_list(args, client, verdict, &why, "clients", clients);
}

static int repair_clock(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    const budget_verdict verdict = budget_repair_clock(client, &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    const char *what = budget_client_note(client)->message;
    if (args->json) {
        return cli_object(json_pack("{s:b, s:s}", "repaired", 1, "message", what));
    }
    (void)printf("%s\n", what);
    return BASE_EXIT_DONE;
}

static const cli_command commands[] = {
    {.name = "client add",
     .operands = "NAME",
     .operand_count = 1,
     .required = CLI_BIT(CLI_ROLE),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_OUT) | CLI_BIT(CLI_REQUEST_ID),
     .summary = "make a key for a client: role request, reconcile or admin",
     .run = run_client_add},
    {.name = "client revoke",
     .operands = "NAME",
     .operand_count = 1,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID),
     .summary = "revoke its key, on open connections too",
     .key = "admin",
     .ask = revoke_client},
    {.name = "client list",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS,
     .summary = "the clients and their roles",
     .key = "admin",
     .ask = list},
    {.name = "clock repair",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS,
     .summary = "after the wall clock was truly corrected: deadlines follow it again",
     .key = "admin",
     .ask = repair_clock},
};
const cli_group cli_client_group = {"Clients", commands, sizeof commands / sizeof commands[0]};
