/* Turns operands into amounts, finds the service's directory, and opens a client; mistakes are
 * reported here. Called by every command of cli/. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "cli.h"

bool cli_money(const cli_args *args, const char *text, int64_t *micro)
{
    base_error error = {0};
    if (budget_money_parse(text, strlen(text), micro, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE, "USD: %s", error.message);
        return false;
    }
    return true;
}

budget_passphrase_source cli_passphrase(const cli_args *args, bool confirm)
{
    const bool has_fd = args->options[CLI_PASSPHRASE_FD] != NULL;
    return (budget_passphrase_source){.file = args->options[CLI_PASSPHRASE_FILE],
                                      .fd = has_fd ? (int)args->values.passphrase_fd : -1,
                                      .confirm = confirm};
}

bool cli_dir(const cli_args *args, char dir[BASE_PATH_BYTES], int *exit_code)
{
    base_error error = {0};
    if (args->options[CLI_DIR] != NULL) {
        memcpy(dir, args->values.dir, BASE_PATH_BYTES);
        return true;
    }
    if (budget_default_dir(dir, &error) != BASE_OK) {
        *exit_code = cli_error(args, BASE_EXIT_USAGE, "%s; say --dir DIR", error.message);
        return false;
    }
    return true;
}

bool cli_export_dir(const cli_args *args, const char *dir)
{
    char absolute[BASE_PATH_BYTES];
    if (base_path_absolute(dir, absolute, sizeof absolute, NULL) == BASE_OK &&
        setenv("BUDGET_SERVICE_DIR", absolute, 1) == 0) {
        return true;
    }
    (void)cli_error(args, BASE_EXIT_ERROR, "cannot set BUDGET_SERVICE_DIR to %s", dir);
    return false;
}

bool cli_client_options(const cli_args *args, const char *key_name, char dir[BASE_PATH_BYTES],
                        budget_client_options *options, int *exit_code)
{
    base_error error = {0};
    const char *key = args->options[CLI_KEY];
    struct stat info;
    const bool is_file = key != NULL && (strchr(key, '/') != NULL ||
                                         (stat(key, &info) == 0 && !S_ISDIR(info.st_mode)));
    *exit_code = BASE_EXIT_USAGE;
    if (!cli_dir(args, dir, exit_code)) {
        return false;
    }
    char clients[BASE_PATH_BYTES + sizeof "/clients"];
    (void)snprintf(clients, sizeof clients, "%s/clients", dir);
    if (!is_file && access(clients, F_OK) != 0) {
        (void)base_fail(
            &error, BASE_ERR_NOTFOUND,
            "no service in %s: 'budget-service init' makes one, --dir names its directory", dir);
        *exit_code = cli_status(args, &error);
        return false;
    }
    if (is_file && access(key, R_OK) != 0) {
        *exit_code =
            cli_error(args, BASE_EXIT_USAGE, "--key: cannot open %s: %s", key, strerror(errno));
        return false;
    }
    *options = (budget_client_options){.dir = dir,
                                       .key_file = is_file ? key : NULL,
                                       .key_name = key != NULL && !is_file ? key : key_name,
                                       .timeout_ms = args->values.timeout_ms};
    return true;
}

budget_client *cli_client(const cli_args *args, const char *key_name, int *exit_code)
{
    char dir[BASE_PATH_BYTES];
    budget_client_options options;
    budget_client *client = NULL;
    base_error error = {0};
    if (!cli_client_options(args, key_name, dir, &options, exit_code)) {
        return NULL;
    }
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
