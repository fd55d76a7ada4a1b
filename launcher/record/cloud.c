/* The token and the GPUs in manifests. Called by manifest.c and inference.c. */
#include "record/cloud.h"

#include <string.h>

#include "record/sheet.h"

json_t *launch_usd_json(int64_t usd_micro)
{
    return usd_micro >= 0 ? json_real((double)usd_micro / 1e6) : json_null();
}

json_t *launch_answer_json(launch_answer answer)
{
    return answer == LAUNCH_UNKNOWN ? json_null() : json_boolean(answer == LAUNCH_YES);
}

json_t *launch_cost_json(const launch_cost *cost)
{
    if (cost == NULL) {
        return json_null();
    }
    launch_sheet sheet = sheet_make();
    sheet_string(&sheet, "id", cost->token_id);
    sheet_string(&sheet, "label", cost->label);
    sheet_string(&sheet, "account", cost->account);
    sheet_string(&sheet, "vendor", cost->vendor);
    sheet_string(&sheet, "instance_type", cost->instance_type);
    sheet_put(&sheet, "estimated_cost_usd", launch_usd_json(cost->estimated_usd_micro));
    sheet_put(&sheet, "actual_cost_usd", launch_usd_json(cost->actual_usd_micro));
    return sheet_take(sheet);
}

/* Each line as a text. */
static void put_lines(launch_sheet *sheet, const char *key, const char *text)
{
    json_t *list = json_array();
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        sheet->failed =
            json_array_append_new(list, json_stringn(text, length)) != 0 || sheet->failed;
        text += length + (text[length] == '\n' ? 1 : 0);
    }
    sheet_put(sheet, key, list);
}

static void put_sampled(launch_sheet *sheet, const char *key, const launch_gpu_info *gpu,
                        int64_t value)
{
    sheet_known(sheet, key, gpu->sampled && value >= 0, (uint64_t)value);
}

static void put_memory(launch_sheet *sheet, const launch_gpu_info *gpu)
{
    json_t *list = json_array();
    for (int i = 0; i < gpu->memory_use_count; i++) {
        const launch_memory_use *use = &gpu->memory_uses[i];
        launch_sheet row = sheet_make();
        sheet_string(&row, "purpose", use->purpose);
        sheet_int(&row, "planned_bytes", use->planned_bytes);
        sheet_int(&row, "peak_bytes", use->peak_bytes);
        sheet_row(sheet, list, row);
    }
    sheet_put(sheet, "memory", list);
}

static launch_sheet make_gpu(const launch_gpu_info *gpu, int rank)
{
    launch_sheet sheet = sheet_make();
    sheet_int(&sheet, "rank", (uint64_t)rank);
    sheet_string(&sheet, "name", gpu->name);
    sheet_string(&sheet, "uuid", gpu->uuid);
    sheet_int(&sheet, "memory_bytes", gpu->memory_bytes);
    put_memory(&sheet, gpu);
    sheet_int(&sheet, "memory_used_bytes", gpu->memory_used_bytes);
    sheet_string(&sheet, "pci", gpu->pci);
    sheet_known(&sheet, "numa_node", gpu->numa_node >= 0, (uint64_t)gpu->numa_node);
    sheet_put(&sheet, "memory_near", json_boolean(gpu->memory_near));
    sheet_string(&sheet, "unbound_because", gpu->unbound);
    sheet_int(&sheet, "driver", gpu->driver);
    sheet_int(&sheet, "nccl", gpu->nccl);
    put_sampled(&sheet, "sm_mhz_max", gpu, gpu->sm_mhz_max);
    put_sampled(&sheet, "milliwatts_max", gpu, gpu->milliwatts_max);
    put_sampled(&sheet, "celsius_max", gpu, gpu->celsius_max);
    sheet_string(&sheet, "slowed_by", gpu->slowed_by);
    sheet_string(&sheet, "plugin", gpu->plugin);
    put_lines(&sheet, "libraries", gpu->libraries);
    put_lines(&sheet, "products", gpu->products);
    sheet_int(&sheet, "graphs", gpu->graphs);
    sheet_int(&sheet, "replays", gpu->replays);
    sheet_string(&sheet, "capture_failure", gpu->capture_failure);
    put_lines(&sheet, "environment", gpu->environment);
    return sheet;
}

json_t *launch_gpus_json(const launch_rank_info *ranks, const proto_job *job, launch_answer nvlink)
{
    launch_sheet sheet = sheet_make();
    json_t *list = json_array();
    for (int rank = 0; ranks != NULL && rank < (int)job->job.world_size; rank++) {
        if (ranks[rank].gpu.name[0] != '\0') {
            sheet_row(&sheet, list, make_gpu(&ranks[rank].gpu, rank));
        }
    }
    const bool any = json_array_size(list) > 0 || sheet.failed;
    sheet_put(&sheet, "nvlink_present", launch_answer_json(nvlink));
    sheet_string(&sheet, "precision", proto_precision_name((int)job->gpu.precision));
    sheet_put(&sheet, "devices", list);
    if (!any) {
        json_decref(sheet.object);
        return json_null();
    }
    return sheet_take(sheet);
}
