/* Reads mode, world size and digest from JOB.json. Called by `authorize` and by the commands that
 * check or redeem a token (token.c). */
#include "job_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "proto/digest.h"
#include "proto/job.h"

static base_status parse(const char *text, size_t text_bytes, job_file *job, base_error *reterr)
{
    json_error_t json_error;
    json_t *json = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (json == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "line %d: %s", json_error.line, json_error.text);
    }
    base_status status = BASE_OK;
    const json_t *group = json_object_get(json, "job");
    const json_t *mode = json_object_get(group, "mode");
    const json_t *world_size = json_object_get(group, "world_size");
    if (!json_is_string(mode) || !json_is_integer(world_size)) {
        status =
            base_fail(reterr, BASE_ERR_INVALID,
                      "a job must say \"job\": {\"mode\", \"world_size\"}: launcher --write-job "
                      "makes one");
    } else if (!budget_name_ok(json_string_value(mode), sizeof job->mode, false) ||
               json_integer_value(world_size) < 1) {
        status = base_fail(reterr, BASE_ERR_INVALID, "\"mode\" or \"world_size\" is out of range");
    } else {
        memcpy(job->mode, json_string_value(mode), json_string_length(mode) + 1);
        job->world_size = json_integer_value(world_size);
        proto_blake2b256(text, text_bytes, job->blake2b256);
    }
    json_decref(json);
    return status;
}

base_status job_file_open(const char *path, job_file *job, base_error *reterr)
{
    void *text = NULL;
    *job = (job_file){0};
    base_status status = base_file_read(path, PROTO_JOB_BYTES_MAX, &text, &job->text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    job->text = text;
    status = parse(job->text, job->text_bytes, job, reterr);
    if (status != BASE_OK) {
        free(text);
        job->text = NULL;
        return base_error_prepend(reterr, status, "%s", path);
    }
    return BASE_OK;
}

base_status job_file_read(const char *path, job_file *job, base_error *reterr)
{
    const base_status status = job_file_open(path, job, reterr);
    if (status == BASE_OK) {
        free(job->text);
        job->text = NULL;
    }
    return status;
}
