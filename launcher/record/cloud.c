/* The token and the GPUs in manifests. Called by manifest.c and inference.c. */
#include "record/cloud.h"

#include <string.h>

/* Takes over the value. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

json_t *launch_usd_json(int64_t usd_micro)
{
    return usd_micro >= 0 ? json_real((double)usd_micro / 1e6) : json_null();
}

json_t *launch_answer_json(launch_answer answer)
{
    return answer == LAUNCH_UNKNOWN ? json_null() : json_boolean(answer == LAUNCH_YES);
}

/* The object, or NULL if a part of it is missing. */
static json_t *whole(json_t *object, bool is_whole)
{
    if (!is_whole) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *launch_cost_json(const launch_cost *cost)
{
    if (cost == NULL) {
        return json_null();
    }
    json_t *object = json_object();
    const bool done =
        put(object, "id", text_or_null(cost->token_id)) &&
        put(object, "label", text_or_null(cost->label)) &&
        put(object, "account", text_or_null(cost->account)) &&
        put(object, "vendor", text_or_null(cost->vendor)) &&
        put(object, "instance_type", text_or_null(cost->instance_type)) &&
        put(object, "estimated_cost_usd", launch_usd_json(cost->estimated_usd_micro)) &&
        put(object, "actual_cost_usd", launch_usd_json(cost->actual_usd_micro));
    return whole(object, done);
}

/* Each line as a text. */
static json_t *lines_json(const char *text)
{
    json_t *list = json_array();
    bool done = list != NULL;
    while (done && *text != '\0') {
        const size_t length = strcspn(text, "\n");
        done = json_array_append_new(list, json_stringn(text, length)) == 0;
        text += length + (text[length] == '\n' ? 1 : 0);
    }
    return whole(list, done);
}

static json_t *sampled_json(const launch_gpu_info *gpu, int64_t value)
{
    return gpu->sampled && value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *memory_json(const launch_gpu_info *gpu)
{
    json_t *list = json_array();
    bool done = list != NULL;
    for (int i = 0; done && i < gpu->memory_use_count; i++) {
        const launch_memory_use *use = &gpu->memory_uses[i];
        json_t *row = json_object();
        done = put(row, "purpose", json_string(use->purpose)) &&
               put(row, "planned_bytes", json_integer((json_int_t)use->planned_bytes)) &&
               put(row, "peak_bytes", json_integer((json_int_t)use->peak_bytes));
        done = json_array_append_new(list, row) == 0 && done;
    }
    return whole(list, done);
}

static json_t *gpu_json(const launch_gpu_info *gpu, int rank)
{
    json_t *object = json_object();
    const bool done =
        put(object, "rank", json_integer(rank)) && put(object, "name", text_or_null(gpu->name)) &&
        put(object, "uuid", text_or_null(gpu->uuid)) &&
        put(object, "memory_bytes", json_integer((json_int_t)gpu->memory_bytes)) &&
        put(object, "memory", memory_json(gpu)) &&
        put(object, "memory_used_bytes", json_integer((json_int_t)gpu->memory_used_bytes)) &&
        put(object, "pci", text_or_null(gpu->pci)) &&
        put(object, "numa_node",
            gpu->numa_node >= 0 ? json_integer(gpu->numa_node) : json_null()) &&
        put(object, "memory_near", json_boolean(gpu->memory_near)) &&
        put(object, "unbound_because", text_or_null(gpu->unbound)) &&
        put(object, "driver", json_integer((json_int_t)gpu->driver)) &&
        put(object, "nccl", json_integer((json_int_t)gpu->nccl)) &&
        put(object, "sm_mhz_max", sampled_json(gpu, gpu->sm_mhz_max)) &&
        put(object, "milliwatts_max", sampled_json(gpu, gpu->milliwatts_max)) &&
        put(object, "celsius_max", sampled_json(gpu, gpu->celsius_max)) &&
        put(object, "slowed_by", text_or_null(gpu->slowed_by)) &&
        put(object, "plugin", text_or_null(gpu->plugin)) &&
        put(object, "libraries", lines_json(gpu->libraries)) &&
        put(object, "products", lines_json(gpu->products)) &&
        put(object, "graphs", json_integer((json_int_t)gpu->graphs)) &&
        put(object, "replays", json_integer((json_int_t)gpu->replays)) &&
        put(object, "capture_failure", text_or_null(gpu->capture_failure)) &&
        put(object, "environment", lines_json(gpu->environment));
    return whole(object, done);
}

json_t *launch_gpus_json(const launch_rank_info *ranks, const proto_job *job, launch_answer nvlink)
{
    const int count = (int)job->job.world_size;
    json_t *list = json_array();
    bool done = list != NULL;
    for (int rank = 0; ranks != NULL && done && rank < count; rank++) {
        if (ranks[rank].gpu.name[0] != '\0') {
            done = json_array_append_new(list, gpu_json(&ranks[rank].gpu, rank)) == 0;
        }
    }
    if (done && json_array_size(list) == 0) {
        json_decref(list);
        return json_null();
    }
    json_t *object = json_object();
    done = done && put(object, "nvlink_present", launch_answer_json(nvlink));
    done = put(object, "precision", json_string(proto_precision_name((int)job->gpu.precision))) &&
           done;
    done = put(object, "devices", list) && done;
    return whole(object, done);
}
