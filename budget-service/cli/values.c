/* Turns options into values (money, integers, directory) and opens a client for them; mistakes are
 * reported here. Called by every command of cli/. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

bool cli_money(const cli_args *args, const char *name, const char *text, int64_t *micro)
{
    base_error error = {0};
    if (budget_money_parse(text, strlen(text), micro, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s: %s", name, error.message);
        return false;
    }
    return true;
}

bool cli_integer(const cli_args *args, cli_option option, int64_t min, int64_t max, int64_t *value)
{
    const char *text = args->options[option];
    char *end = NULL;
    if (text == NULL) {
        return true;
    }
    errno = 0;
    const long long read = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || read < min || read > max) {
        (void)cli_error(args, BASE_EXIT_USAGE,
                        "%s '%s': must be a whole number from %" PRId64 " to %" PRId64,
                        cli_option_flag(option), text, min, max);
        return false;
    }
    *value = read;
    return true;
}

bool cli_copy(const cli_args *args, const char *name, const char *text, char *into,
              size_t into_bytes)
{
    if (text == NULL) {
        return true;
    }
    if (text[0] == '\0' || strlen(text) >= into_bytes) {
        (void)cli_error(args, BASE_EXIT_USAGE, "%s must have 1 to %zu characters", name,
                        into_bytes - 1);
        return false;
    }
    memcpy(into, text, strlen(text) + 1);
    return true;
}

bool cli_dir(const cli_args *args, char dir[BASE_PATH_BYTES], int *exit_code)
{
    base_error error = {0};
    if (args->options[CLI_DIR] != NULL) {
        *exit_code = BASE_EXIT_USAGE;
        return cli_copy(args, "--dir", args->options[CLI_DIR], dir, BASE_PATH_BYTES);
    }
    if (budget_default_dir(dir, &error) != BASE_OK) {
        *exit_code = cli_error(args, BASE_EXIT_USAGE, "%s; say --dir DIR", error.message);
        return false;
    }
    return true;
}

budget_client *cli_client(const cli_args *args, const char *key_name, int *exit_code)
{
    char dir[BASE_PATH_BYTES];
    budget_client *client = NULL;
    base_error error = {0};
    int64_t timeout_s = 0;
    const char *key = args->options[CLI_KEY];
    struct stat info;
    const bool is_file = key != NULL && (strchr(key, '/') != NULL ||
                                         (stat(key, &info) == 0 && !S_ISDIR(info.st_mode)));
    *exit_code = BASE_EXIT_USAGE;
    if (!cli_integer(args, CLI_TIMEOUT, 1, 3600, &timeout_s) || !cli_dir(args, dir, exit_code)) {
        return NULL;
    }
    char clients[BASE_PATH_BYTES + sizeof "/clients"];
    (void)snprintf(clients, sizeof clients, "%s/clients", dir);
    if (!is_file && access(clients, F_OK) != 0) {
        (void)base_fail(
            &error, BASE_ERR_NOTFOUND,
            "no service in %s: 'budget-service init' makes one, --dir names its directory", dir);
        *exit_code = cli_status(args, &error);
        return NULL;
    }
    const budget_client_options options = {.dir = dir,
                                           .key_file = is_file ? key : NULL,
                                           .key_name = key != NULL && !is_file ? key : key_name,
                                           .timeout_ms = timeout_s * 1000};
    if (budget_client_open(&options, &client, &error) != BASE_OK) {
        *exit_code = cli_status(args, &error);
        return NULL;
    }
    const char *request_id = args->options[CLI_REQUEST_ID];
    if (request_id != NULL && budget_client_set_request_id(client, request_id, &error) != BASE_OK) {
        *exit_code = cli_error(args, BASE_EXIT_USAGE, "--request-id: %s", error.message);
        budget_client_close(client);
        return NULL;
    }
    return client;
}
