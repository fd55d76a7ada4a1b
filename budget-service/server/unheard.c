/* Keeps alarms of bills until the policy's hook has heard them. Called by bill_alarm.c, batch.c, reaper.c,
 * handle_read.c and service.c. */
#include "unheard.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "budget/service_files.h"
#include "service.h"

enum { FILE_BYTES_MAX = 4 << 20 };
_Static_assert(SERVICE_UNHEARD_MAX *(12 << 10) <= FILE_BYTES_MAX, "what is written can be read");

static const char LOST[] =
    "alarms of bills that the policy's hook has not heard are lost: reconcile "
    "says no more of them";

static void drop(service_unheard *all, size_t i)
{
    json_decref(all->entries[i].alarm);
    json_decref(all->entries[i].line);
    all->count--;
    all->committed -= i < all->committed;
    memmove(&all->entries[i], &all->entries[i + 1], (all->count - i) * sizeof all->entries[0]);
}

/* Takes both. */
static void append(service_unheard *all, json_t *alarm, json_t *line)
{
    if (all->count == SERVICE_UNHEARD_MAX) {
        base_log(BASE_LOG_ERROR,
                 "too many alarms that the policy's hook has not heard; this one is "
                 "dropped: %s",
                 json_string_value(all->entries[0].line));
        drop(all, 0);
    }
    all->entries[all->count++] = (service_unheard_entry){.alarm = alarm, .line = line};
}

/* ---- the file */

static base_status write_file(const char *path, const service_unheard *all, base_error *reterr)
{
    static const base_file_kind kind = {.mode_max = 0600, .durable = true};
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < all->count; i++) {
        const service_unheard_entry *entry = &all->entries[i];
        good = good && json_array_append_new(list, json_pack("{s:O, s:O}", "alarm", entry->alarm,
                                                             "line", entry->line)) == 0;
    }
    char *text = good ? json_dumps(list, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    const base_status status = text != NULL
                                   ? base_file_write_as(path, &kind, text, strlen(text), reterr)
                                   : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", path);
    free(text);
    json_decref(list);
    return status;
}

static base_status save(const budget_service *service, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = base_path_join(service->dir, BUDGET_FILE_ALARMS, path, reterr);
    if (status == BASE_OK && service->unheard.count == 0) {
        return unlink(path) == 0 || errno == ENOENT
                   ? BASE_OK
                   : base_fail_errno(reterr, errno, "cannot remove %s", path);
    }
    return status == BASE_OK ? write_file(path, &service->unheard, reterr) : status;
}

/* Where the file is older than what is known, an alarm is heard once more. */
static void save_or_log(budget_service *service)
{
    base_error why = {0};
    if (save(service, &why) != BASE_OK) {
        service_log_failure(service, why.message);
    }
}

static base_status take(service_unheard *all, const char *path, const char *text, size_t text_bytes,
                        base_error *reterr)
{
    size_t i = 0;
    json_t *entry = NULL;
    json_t *list = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_array(list);
    json_array_foreach(list, i, entry)
    {
        json_t *alarm = json_object_get(entry, "alarm");
        json_t *line = json_object_get(entry, "line");
        if (json_is_object(alarm) && json_is_string(line)) {
            append(all, json_incref(alarm), json_incref(line));
        } else {
            good = false;
        }
    }
    json_decref(list);
    all->committed = all->count;
    return good ? BASE_OK : base_fail(reterr, BASE_ERR_INVALID, "%s is no list of alarms", path);
}

void service_unheard_load(budget_service *service)
{
    char path[BASE_PATH_BYTES];
    base_error why = {0};
    void *text = NULL;
    size_t text_bytes = 0;
    base_status status = base_path_join(service->dir, BUDGET_FILE_ALARMS, path, &why);
    if (status == BASE_OK) {
        status = base_file_read_regular(path, FILE_BYTES_MAX, &text, &text_bytes, &why);
    }
    if (status == BASE_OK) {
        status = take(&service->unheard, path, text, text_bytes, &why);
        free(text);
    }
    if (status != BASE_OK && status != BASE_ERR_NOTFOUND) {
        base_log(BASE_LOG_ERROR, "%s; %s", why.message, LOST);
    }
}

/* ---- a batch */

void service_unheard_add(budget_service *service, json_t *alarm, const char *line)
{
    json_t *said = json_string(line);
    if (alarm != NULL && said != NULL) {
        append(&service->unheard, alarm, said);
        return;
    }
    json_decref(alarm);
    json_decref(said);
    service_alarm(service, NULL, "%s", line);
}

base_status service_unheard_prepare(budget_service *service, base_error *reterr)
{
    const service_unheard *all = &service->unheard;
    return all->count > all->committed ? save(service, reterr) : BASE_OK;
}

static void raise_one(budget_service *service, service_unheard_entry *entry)
{
    const uint64_t before = service->hook.sent;
    service_alarm(service, json_deep_copy(entry->alarm), "%s", json_string_value(entry->line));
    entry->number = service->hook.sent != before ? service->hook.sent : 0;
}

/* The same alarm of an older reconcile needs no hearing of its own. */
static void drop_same(service_unheard *all, const json_t *alarm)
{
    for (size_t i = 0; i < all->committed; i++) {
        if (json_equal(all->entries[i].alarm, alarm)) {
            drop(all, i);
            return;
        }
    }
}

/* Without a hook, the log is where an alarm is heard. */
static void forget_without_hook(budget_service *service)
{
    if (!service_hook_is_set(&service->hook) && service->unheard.count > 0) {
        service_unheard_free(service);
        save_or_log(service);
    }
}

void service_unheard_settle(budget_service *service, bool is_committed)
{
    service_unheard *all = &service->unheard;
    if (all->count == all->committed) {
        return;
    }
    while (!is_committed && all->count > all->committed) {
        drop(all, all->count - 1);
    }
    while (all->committed < all->count) {
        drop_same(all, all->entries[all->committed].alarm);
        raise_one(service, &all->entries[all->committed++]);
    }
    if (!is_committed) {
        save_or_log(service);
    }
    forget_without_hook(service);
}

/* ---- the hook */

void service_unheard_answer(budget_service *service, uint64_t number, bool heard)
{
    service_unheard *all = &service->unheard;
    for (size_t i = 0; i < all->committed; i++) {
        if (all->entries[i].number != number) {
            continue;
        }
        all->entries[i].number = 0;
        if (heard) {
            drop(all, i);
            save_or_log(service);
        }
        return;
    }
}

void service_unheard_raise(budget_service *service)
{
    service_unheard *all = &service->unheard;
    for (size_t i = 0; i < all->committed; i++) {
        if (all->entries[i].number == 0) {
            raise_one(service, &all->entries[i]);
        }
    }
    forget_without_hook(service);
}

size_t service_unheard_count(const budget_service *service)
{
    const service_unheard *all = &service->unheard;
    size_t count = 0;
    for (size_t i = 0; i < all->committed; i++) {
        count += all->entries[i].number == 0;
    }
    return count;
}

void service_unheard_free(budget_service *service)
{
    while (service->unheard.count > 0) {
        drop(&service->unheard, 0);
    }
}
