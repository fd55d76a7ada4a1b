/* Keeps a rent's token and instances in its directory. Called by rent.c, watchdog.c and cli/rent.c. */
#include "directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/path.h"
#include "budget/secret_file.h"
#include "budget/time.h"
#include "budget/token.h"

enum { INSTANCES_BYTES_MAX = 1 << 20 };

static base_status put_files(const char *directory, const char *token, const proto_keypair *job_key,
                             base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    char line[BUDGET_TOKEN_BYTES + 1];
    const int length = snprintf(line, sizeof line, "%s\n", token);
    base_status status = base_path_join(directory, RENT_FILE_TOKEN, path, reterr);
    if (status == BASE_OK) {
        status = budget_secret_file_create(path, line, (size_t)length, reterr);
    }
    if (status == BASE_OK) {
        status = base_path_join(directory, RENT_FILE_JOB_KEY, path, reterr);
    }
    return status == BASE_OK ? budget_keypair_create(path, job_key, reterr) : status;
}

base_status rent_directory_default(const char *service_dir, const char *jti,
                                   char directory[BASE_PATH_BYTES], base_error *reterr)
{
    char rents[BASE_PATH_BYTES];
    base_status status = base_path_join(service_dir, "rents", rents, reterr);
    if (status == BASE_OK && mkdir(rents, 0700) != 0 && errno != EEXIST) {
        status = base_fail_errno(reterr, errno, "cannot make %s", rents);
    }
    return status == BASE_OK ? base_path_join(rents, jti, directory, reterr) : status;
}

base_status rent_directory_make(const char *directory, const char *token, proto_keypair *job_key,
                                base_error *reterr)
{
    proto_keypair_make(job_key);
    (void)rmdir(directory); /* one that is there must be empty */
    if (mkdir(directory, 0700) != 0) {
        return errno == EEXIST
                   ? base_fail(reterr, BASE_ERR_STATE,
                               "%s is not empty: each rent has a directory of its own, and each "
                               "token one rent: authorize another label, or name another --out",
                               directory)
                   : base_fail_errno(reterr, errno, "cannot make %s", directory);
    }
    const base_status status = put_files(directory, token, job_key, reterr);
    if (status != BASE_OK) {
        rent_directory_remove(directory);
    }
    return status;
}

void rent_directory_remove(const char *directory)
{
    static const char *const names[] = {RENT_FILE_TOKEN, RENT_FILE_JOB_KEY, RENT_FILE_LOG};
    char path[BASE_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (base_path_join(directory, names[i], path, NULL) == BASE_OK) {
            (void)unlink(path);
        }
    }
    (void)rmdir(directory);
}

base_status rent_directory_write(const char *directory, const rent_whose *whose,
                                 const rent_held *held, base_error *reterr)
{
    static const base_file_kind kind = {.mode_max = 0600, .durable = true};
    char path[BASE_PATH_BYTES];
    char until[BUDGET_TIME_BYTES];
    json_t *instances = json_array();
    budget_time_format(whose->until_s, until);
    for (int i = 0; i < held->count; i++) {
        (void)json_array_append_new(instances, rent_instance_json(&held->items[i]));
    }
    json_t *object = json_pack("{s:s, s:s, s:s, s:o}", "label", whose->label, "jti", whose->jti,
                               "until", until, "instances", instances);
    char *text = json_dumps(object, JSON_INDENT(1));
    json_decref(object);
    base_status status = base_path_join(directory, RENT_FILE_INSTANCES, path, reterr);
    if (status == BASE_OK) {
        status = text != NULL ? base_file_write_as(path, &kind, text, strlen(text), reterr)
                              : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", path);
    }
    free(text);
    return status;
}

base_status rent_directory_read(const char *directory, const char *jti, rent_held *held,
                                base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    json_t *object = NULL;
    rent_list list = {0};
    base_status status = base_path_join(directory, RENT_FILE_INSTANCES, path, reterr);
    status =
        status == BASE_OK ? base_json_read(path, INSTANCES_BYTES_MAX, &object, reterr) : status;
    if (status == BASE_ERR_NOTFOUND) {
        return BASE_OK;
    }
    if (status == BASE_OK) {
        const char *kept = json_string_value(json_object_get(object, "jti"));
        status = kept == NULL ? base_fail(reterr, BASE_ERR_INVALID, "%s names no jti", path)
                 : strcmp(kept, jti) != 0
                     ? base_fail(reterr, BASE_ERR_STATE, "%s is another label's", path)
                     : rent_list_read(object, NULL, &list, reterr);
    }
    for (size_t i = 0; i < list.count; i++) {
        const json_t *item = json_array_get(json_object_get(object, "instances"), i);
        list.items[i].shown = json_is_true(json_object_get(item, "shown"));
        (void)rent_hold(held, &list.items[i]);
    }
    rent_list_free(&list);
    json_decref(object);
    return status;
}
