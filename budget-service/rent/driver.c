/* Starts a driver for each call, and reads its answer. Called by rent.c and end.c. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "budget/money.h"
#include "budget/time.h"
#include "clock.h"

enum { EXIT_REFUSED = 3, REASON_BYTES = 400, ERRORS_BYTES_MAX = 1 << 20 };

/* One run of the driver. */
typedef struct call {
    const char *verb;
    const char *id; /* NULL: none */
    json_t *input;  /* NULL: none */
    int exit_code;
    json_t *answer; /* NULL: not asked for, or it failed */
} call;

base_status rent_driver_find(const char *vendor, const char *file, rent_driver *driver,
                             base_error *reterr)
{
    char share[BASE_PATH_BYTES];
    char name[BUDGET_NAME_BYTES + sizeof "drivers/"];
    struct stat info;
    base_status status = BASE_OK;
    driver->leader = NULL;
    (void)snprintf(driver->vendor, sizeof driver->vendor, "%s", vendor);
    if (file != NULL) {
        status = base_path_absolute(file, driver->path, sizeof driver->path, reterr);
    } else if (strchr(vendor, '/') != NULL || vendor[0] == '.') {
        status =
            base_fail(reterr, BASE_ERR_NOTFOUND, "no driver comes with Ringfence for %s", vendor);
    } else {
        (void)snprintf(name, sizeof name, "drivers/%s", vendor);
        status = base_path_share(share, reterr);
        status = status == BASE_OK ? base_path_join(share, name, driver->path, reterr) : status;
    }
    if (status != BASE_OK) {
        return status;
    }
    if (stat(driver->path, &info) != 0 || !S_ISREG(info.st_mode) ||
        access(driver->path, X_OK) != 0) {
        return base_fail(reterr, BASE_ERR_NOTFOUND,
                         "%s: there is no program %s; --driver FILE names another", vendor,
                         driver->path);
    }
    return BASE_OK;
}

/* The last line of what the driver has said, which is not empty. */
static void last_line(int fd, char reason[REASON_BYTES])
{
    void *data = NULL;
    size_t size_bytes = 0;
    reason[0] = '\0';
    if (lseek(fd, 0, SEEK_SET) < 0 ||
        base_fd_read(fd, "standard error", ERRORS_BYTES_MAX, &data, &size_bytes, NULL) != BASE_OK) {
        return;
    }
    char *text = data;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        (void)snprintf(reason, REASON_BYTES, "%s", line);
    }
    base_text_escape(reason, REASON_BYTES);
    free(data);
}

static base_status read_answer(int fd, json_t **answer, base_error *reterr)
{
    void *data = NULL;
    size_t size_bytes = 0;
    json_error_t error;
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return base_fail(reterr, BASE_ERR_IO, "cannot read the driver's answer");
    }
    const base_status status =
        base_fd_read(fd, "the driver's answer", RENT_ANSWER_BYTES_MAX, &data, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    *answer = json_loadb(data, size_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    free(data);
    return *answer != NULL ? BASE_OK
                           : base_fail(reterr, BASE_ERR_INVALID,
                                       "the driver's answer is not one JSON value: %s", error.text);
}

static base_status write_input(const json_t *input, int fd, base_error *reterr)
{
    char *text = json_dumps(input, JSON_COMPACT);
    const base_status status = text != NULL
                                   ? base_fd_write(fd, "the order", text, strlen(text), reterr)
                                   : base_fail(reterr, BASE_ERR_MEMORY, "no memory for an order");
    free(text);
    return status == BASE_OK && lseek(fd, 0, SEEK_SET) < 0
               ? base_fail(reterr, BASE_ERR_IO, "cannot write the order")
               : status;
}

/* How the driver has ended, and its answer. fds: its standard input, output and error. */
static base_status run_with(const rent_driver *driver, call *made, const int fds[3],
                            base_error *reterr)
{
    const char *const argv[] = {driver->path, made->verb, made->id, NULL};
    const base_child_group group = {.stop_fd = -1, .leader = driver->leader};
    const base_child child = {.program = driver->path,
                              .argv = argv,
                              .stdin_fd = fds[0],
                              .stdout_fd = fds[1],
                              .stderr_fd = fds[2],
                              .timeout_ns = RENT_CALL_S * BASE_NS_PER_S,
                              .group = &group};
    char reason[REASON_BYTES];
    int wait_status = 0;
    base_status status = made->input != NULL ? write_input(made->input, fds[0], reterr) : BASE_OK;
    status = status == BASE_OK ? base_child_run(&child, &wait_status, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    made->exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    if (made->exit_code != 0) {
        last_line(fds[2], reason);
        return base_fail(reterr, BASE_ERR_IO, "%s",
                         reason[0] != '\0' ? reason : "it gives no reason");
    }
    return strcmp(made->verb, "delete") == 0 || strcmp(made->verb, "check") == 0
               ? BASE_OK
               : read_answer(fds[1], &made->answer, reterr);
}

static base_status run(const rent_driver *driver, call *made, base_error *reterr)
{
    int fds[3] = {-1, -1, -1};
    bool open = true;
    base_status status = BASE_OK;
    made->exit_code = -1;
    for (int i = 0; i < 3; i++) {
        fds[i] = memfd_create("driver", MFD_CLOEXEC);
        open = open && fds[i] >= 0;
    }
    status = open ? run_with(driver, made, fds, reterr)
                  : base_fail(reterr, BASE_ERR_IO, "no file for a driver's answer");
    for (int i = 0; i < 3; i++) {
        base_fd_close(&fds[i]);
    }
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "%s, %s", driver->vendor, made->verb);
}

/* ---- the calls ---- */

static void set_text(json_t *object, const char *key, const char *text)
{
    if (text[0] != '\0') {
        (void)json_object_set_new(object, key, json_string(text));
    }
}

static json_t *order_json(const rent_order *order)
{
    char price[BUDGET_MONEY_BYTES];
    char until[BUDGET_TIME_BYTES];
    const budget_claims *claims = order->claims;
    budget_money_format(claims->max_price_usd_micro_per_hour, price);
    budget_time_format(order->until_s, until);
    json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:I}", "name", order->name, "label",
                               claims->label, "instance_type", claims->instance_type, "gpus",
                               (json_int_t)claims->gpus, "max_price_usd", price, "until", until,
                               "seconds_left", (json_int_t)(order->until_s - rent_time_s()));
    set_text(object, "tier", claims->tier);
    set_text(object, "image", order->image);
    set_text(object, "ssh_public_key", order->ssh_public_key);
    if (order->disk_gb > 0) {
        (void)json_object_set_new(object, "disk_gb", json_integer(order->disk_gb));
    }
    return object;
}

void rent_driver_is_about(const char *account)
{
    if (account[0] != '\0') {
        (void)setenv("RINGFENCE_ACCOUNT", account, 1);
    } else {
        (void)unsetenv("RINGFENCE_ACCOUNT");
    }
}

base_status rent_driver_account(const rent_driver *driver,
                                char account[BUDGET_VENDOR_ACCOUNT_BYTES], base_error *reterr)
{
    call made = {.verb = "account"};
    base_status status = run(driver, &made, reterr);
    account[0] = '\0';
    if (status == BASE_OK) {
        status = rent_account_read(made.answer, account, reterr);
        status = status == BASE_OK
                     ? BASE_OK
                     : base_error_prepend(reterr, status, "%s, account", driver->vendor);
    }
    json_decref(made.answer);
    return status;
}

static rent_outcome outcome_of(const call *made, base_status status)
{
    return status == BASE_OK                 ? RENT_MADE
           : made->exit_code == EXIT_REFUSED ? RENT_REFUSED
                                             : RENT_UNCLEAR;
}

rent_outcome rent_driver_check(const rent_driver *driver, const rent_order *order,
                               base_error *reterr)
{
    call made = {.verb = "check", .input = order_json(order)};
    const base_status status = run(driver, &made, reterr);
    json_decref(made.input);
    return outcome_of(&made, status);
}

/* Of what create says only the id counts: describe says the rest. */
static base_status read_id(const json_t *answer, rent_instance *made, base_error *reterr)
{
    json_t *only = json_object();
    (void)json_object_set(only, "instance_id", json_object_get(answer, "instance_id"));
    const base_status status = rent_instance_read(only, true, made, reterr);
    json_decref(only);
    return status;
}

rent_outcome rent_driver_create(const rent_driver *driver, const rent_order *order,
                                rent_instance *made, base_error *reterr)
{
    call create = {.verb = "create", .input = order_json(order)};
    base_status status = run(driver, &create, reterr);
    if (status == BASE_OK) {
        status = read_id(create.answer, made, reterr);
        (void)snprintf(made->name, sizeof made->name, "%s", order->name);
        status = status == BASE_OK
                     ? BASE_OK
                     : base_error_prepend(reterr, status, "%s, create", driver->vendor);
    }
    json_decref(create.input);
    json_decref(create.answer);
    return outcome_of(&create, status);
}

base_status rent_driver_list(const rent_driver *driver, const char *jti, rent_list *list,
                             base_error *reterr)
{
    call made = {.verb = "list"};
    base_status status = run(driver, &made, reterr);
    *list = (rent_list){0};
    if (status == BASE_OK) {
        status = rent_list_read(made.answer, jti, list, reterr);
        status = status == BASE_OK ? BASE_OK
                                   : base_error_prepend(reterr, status, "%s, list", driver->vendor);
    }
    json_decref(made.answer);
    return status;
}

base_status rent_driver_describe(const rent_driver *driver, const char *id, rent_instance *instance,
                                 base_error *reterr)
{
    call made = {.verb = "describe", .id = id};
    base_status status = run(driver, &made, reterr);
    if (status == BASE_OK) {
        status = rent_instance_read(made.answer, false, instance, reterr);
        if (status == BASE_OK && strcmp(instance->id, id) != 0) {
            status = base_fail(reterr, BASE_ERR_INVALID, "the answer is about %s", instance->id);
        }
        status = status == BASE_OK
                     ? BASE_OK
                     : base_error_prepend(reterr, status, "%s, describe %s", driver->vendor, id);
    }
    json_decref(made.answer);
    return status;
}

base_status rent_driver_delete(const rent_driver *driver, const char *id, base_error *reterr)
{
    call made = {.verb = "delete", .id = id};
    return run(driver, &made, reterr);
}
