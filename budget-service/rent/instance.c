/* Reads instances from a driver's answers, and writes them for COMMAND. Called by driver.c, and by
 * directory.c for instances.json. */
#include "instance.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "budget/money.h"

enum { PORT_MAX = 65535 };

static const char *const state_names[] = {
    [RENT_STARTING] = "starting",     [RENT_RUNNING] = "running",     [RENT_STOPPED] = "stopped",
    [RENT_TERMINATED] = "terminated", [RENT_NOT_FOUND] = "not-found",
};
enum { STATE_COUNT = sizeof state_names / sizeof state_names[0] };

const char *rent_state_name(rent_state state)
{
    return state_names[state];
}

void rent_instance_show(rent_instance *instance, const rent_instance *said)
{
    if (said->name[0] != '\0' && (!instance->shown || instance->name[0] == '\0')) {
        memcpy(instance->name, said->name, sizeof instance->name);
    }
    instance->shown = true;
}

static base_status bad(base_error *reterr, const char *key, const char *what)
{
    return base_fail(reterr, BASE_ERR_INVALID, "%s %s", key, what);
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Whether nothing in it means something to a shell or to ssh: it goes to commands. `more`: further characters. */
static bool is_plain(const char *text, const char *more)
{
    for (; *text != '\0'; text++) {
        if (strchr(LETTERS, *text) == NULL && strchr(more, *text) == NULL) {
            return false;
        }
    }
    return true;
}

/* Copies a member that may be missing; then text is empty. */
static base_status read_text(const json_t *object, const char *key, char *text, size_t size_bytes,
                             base_error *reterr)
{
    const json_t *value = json_object_get(object, key);
    text[0] = '\0';
    if (value == NULL || json_is_null(value)) {
        return BASE_OK;
    }
    const size_t length = json_string_length(value);
    if (!json_is_string(value) || strlen(json_string_value(value)) != length) {
        return bad(reterr, key, "is no text");
    }
    if (length >= size_bytes) {
        return bad(reterr, key, "is too long");
    }
    memcpy(text, json_string_value(value), length + 1);
    return BASE_OK;
}

static base_status read_id(const json_t *object, rent_instance *instance, base_error *reterr)
{
    const base_status status =
        read_text(object, "instance_id", instance->id, sizeof instance->id, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return instance->id[0] != '\0' && instance->id[0] != '-' && /* it is an argument of commands */
                   is_plain(instance->id, "")
               ? BASE_OK
               : bad(reterr, "instance_id", "is missing, or is none");
}

static base_status read_state(const json_t *object, bool partial, rent_instance *instance,
                              base_error *reterr)
{
    char name[RENT_USER_BYTES];
    const base_status status = read_text(object, "status", name, sizeof name, reterr);
    if (status != BASE_OK) {
        return status;
    }
    instance->state = RENT_STARTING;
    for (int i = 0; i < STATE_COUNT; i++) {
        if (strcmp(name, state_names[i]) == 0) {
            instance->state = (rent_state)i;
            return BASE_OK;
        }
    }
    return partial && name[0] == '\0'
               ? BASE_OK
               : bad(reterr, "status",
                     "is none of starting, running, stopped, terminated and not-found");
}

static base_status read_price(const json_t *object, rent_instance *instance, base_error *reterr)
{
    char text[BUDGET_MONEY_BYTES];
    const base_status status = read_text(object, "price_usd", text, sizeof text, reterr);
    instance->price_usd_micro = -1;
    if (status != BASE_OK || text[0] == '\0') {
        return status;
    }
    return budget_money_parse(text, strlen(text), &instance->price_usd_micro, NULL) == BASE_OK
               ? BASE_OK
               : bad(reterr, "price_usd", "is no amount such as \"0.69\"");
}

static base_status read_place(const json_t *object, rent_instance *instance, base_error *reterr)
{
    const json_t *port = json_object_get(object, "port");
    base_status status = read_text(object, "host", instance->host, sizeof instance->host, reterr);
    if (status == BASE_OK) {
        status = read_text(object, "user", instance->user, sizeof instance->user, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (port != NULL && !json_is_null(port) &&
        (!json_is_integer(port) || json_integer_value(port) < 1 ||
         json_integer_value(port) > PORT_MAX)) {
        return bad(reterr, "port", "is none");
    }
    instance->port = (int)json_integer_value(port);
    if (instance->host[0] == '-' || instance->user[0] == '-' || !is_plain(instance->host, ":") ||
        !is_plain(instance->user, "")) {
        return bad(reterr, "host or user", "has a character that no address has");
    }
    if (instance->state == RENT_RUNNING &&
        (instance->host[0] == '\0' || instance->port == 0 || instance->user[0] == '\0')) {
        return bad(reterr, "host, port or user", "is missing, and the instance is running");
    }
    return BASE_OK;
}

base_status rent_instance_read(const json_t *object, bool partial, rent_instance *instance,
                               base_error *reterr)
{
    *instance = (rent_instance){.price_usd_micro = -1};
    if (!json_is_object(object)) {
        return base_fail(reterr, BASE_ERR_INVALID, "an instance is no object");
    }
    base_status status = read_id(object, instance, reterr);
    status = status == BASE_OK
                 ? read_text(object, "name", instance->name, sizeof instance->name, reterr)
                 : status;
    status = status == BASE_OK ? read_state(object, partial, instance, reterr) : status;
    if (status == BASE_OK && !partial) {
        status = read_price(object, instance, reterr);
    }
    return status == BASE_OK && !partial ? read_place(object, instance, reterr) : status;
}

base_status rent_account_read(const json_t *object, char account[BUDGET_VENDOR_ACCOUNT_BYTES],
                              base_error *reterr)
{
    const base_status status =
        read_text(object, "vendor_account", account, BUDGET_VENDOR_ACCOUNT_BYTES, reterr);
    if (status == BASE_OK && (account[0] == '\0' || !is_plain(account, ":/@+="))) {
        account[0] = '\0';
        return bad(reterr, "vendor_account", "is missing, or is none");
    }
    return status;
}

/* Whether its name says that it is somebody else's. */
static bool is_foreign(const json_t *object, const char *jti)
{
    const json_t *name = json_object_get(object, "name");
    const char *text = json_string_value(name);
    return jti != NULL && text != NULL && text[0] != '\0' &&
           memmem(text, json_string_length(name), jti, strlen(jti)) == NULL;
}

/* An instance of a list. Of somebody else's only id, name and state matter, because it may be one of ours that was
 * renamed; one whose id cannot be read is none that we know, and its id stays empty. */
static base_status read_listed(const json_t *object, const char *jti, rent_instance *instance,
                               base_error *reterr)
{
    const base_status status = rent_instance_read(object, true, instance, reterr);
    if (status == BASE_OK || !is_foreign(object, jti)) {
        return status;
    }
    *instance = (rent_instance){.state = RENT_STARTING, .price_usd_micro = -1};
    if (read_id(object, instance, NULL) != BASE_OK) {
        instance->id[0] = '\0';
    }
    (void)read_state(object, true, instance, NULL); /* else it exists */
    base_utf8_copy(instance->name, sizeof instance->name,
                   json_string_value(json_object_get(object, "name")));
    return BASE_OK;
}

base_status rent_list_read(const json_t *object, const char *jti, rent_list *list,
                           base_error *reterr)
{
    const json_t *instances = json_object_get(object, "instances");
    const size_t count = json_array_size(instances);
    base_status status = BASE_OK;
    *list = (rent_list){0};
    if (!json_is_array(instances)) {
        return bad(reterr, "instances", "is no list");
    }
    if (count > RENT_LISTED_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "more than %d instances", RENT_LISTED_MAX);
    }
    list->items = calloc(count > 0 ? count : 1, sizeof *list->items);
    if (list->items == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu instances", count);
    }
    for (size_t i = 0; status == BASE_OK && i < count; i++) {
        rent_instance *item = &list->items[list->count];
        status = read_listed(json_array_get(instances, i), jti, item, reterr);
        list->count += item->id[0] != '\0';
    }
    if (status != BASE_OK) {
        rent_list_free(list);
    }
    return status;
}

void rent_list_free(rent_list *list)
{
    free(list->items);
    *list = (rent_list){0};
}

json_t *rent_instance_json(const rent_instance *instance)
{
    char price[BUDGET_MONEY_BYTES];
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:b}", "instance_id", instance->id, "name", instance->name,
                  "status", rent_state_name(instance->state), "shown", instance->shown);
    if (instance->host[0] != '\0') {
        (void)json_object_set_new(object, "host", json_string(instance->host));
        (void)json_object_set_new(object, "port", json_integer(instance->port));
        (void)json_object_set_new(object, "user", json_string(instance->user));
    }
    if (instance->price_usd_micro >= 0) {
        budget_money_format(instance->price_usd_micro, price);
        (void)json_object_set_new(object, "price_usd", json_string(price));
    }
    return object;
}
