/* Prints the table of GPUs and the matrix of their links, or the same as JSON. Called by cli.c. */
#include "gpus/gpus.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "gpus/look.h"

enum { NUMBER_BYTES = 32 };

/* A number with its unit, or "-". */
static const char *number(int64_t value, int64_t divisor, const char *unit, char text[NUMBER_BYTES])
{
    (void)snprintf(text, NUMBER_BYTES, value < 0 ? "-" : "%" PRId64 "%s", value / divisor, unit);
    return text;
}

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

static void print_users(const launch_gpu *gpu, FILE *stream)
{
    (void)fprintf(stream, "  used by %s",
                  gpu->user_count < 0    ? "-"
                  : gpu->user_count == 0 ? "nobody"
                                         : "");
    for (int64_t i = 0; i < gpu->user_count; i++) {
        (void)fprintf(stream, "%spid %u", i == 0 ? "" : ", ", gpu->users[i].pid);
    }
    (void)fputc('\n', stream);
}

static void print_gpu(const launch_gpu *gpu, int index, FILE *stream)
{
    char texts[2][NUMBER_BYTES];
    char reasons[LAUNCH_NVML_TEXT_BYTES];
    (void)fprintf(stream, "GPU %d: %s, %s\n", index, or_dash(gpu->name), or_dash(gpu->uuid));
    (void)fprintf(stream, "  at %s, NUMA node %s\n", or_dash(gpu->pci),
                  number(gpu->numa_node, 1, "", texts[0]));
    (void)fprintf(stream, "  memory %s, %s free\n",
                  number(gpu->memory_bytes, 1 << 20, " MiB", texts[0]),
                  number(gpu->memory_free_bytes, 1 << 20, " MiB", texts[1]));
    (void)fprintf(stream, "  MIG %s\n", gpu->mig < 0 ? "-" : gpu->mig > 0 ? "on" : "off");
    (void)fprintf(stream, "  NVLinks %" PRId64 "\n", gpu->nvlinks);
    (void)fprintf(stream, "  clocks %s, memory %s\n", number(gpu->sm_mhz, 1, " MHz", texts[0]),
                  number(gpu->memory_mhz, 1, " MHz", texts[1]));
    (void)fprintf(stream, "  power %s of %s", number(gpu->milliwatts, 1000, " W", texts[0]),
                  number(gpu->milliwatts_max, 1000, " W", texts[1]));
    (void)fprintf(stream, ", %s, slowed by %s\n", number(gpu->celsius, 1, " C", texts[0]),
                  launch_gpu_throttle_text(gpu->throttle, reasons));
    (void)fprintf(stream, "  uncorrected memory errors %s\n",
                  number(gpu->ecc_errors, 1, "", texts[0]));
    print_users(gpu, stream);
}

static void print_matrix(const launch_nvml *nvml, const launch_gpus *found, FILE *stream)
{
    (void)fprintf(stream, "between GPUs: nvlink; p2p: over PCIe; host: through memory\n    ");
    for (int b = 0; b < found->count; b++) {
        (void)fprintf(stream, " %6d", b);
    }
    for (int a = 0; a < found->count; a++) {
        (void)fprintf(stream, "\n%4d", a);
        for (int b = 0; b < found->count; b++) {
            (void)fprintf(stream, " %6s",
                          launch_gpus_between(nvml, &found->gpus[a], &found->gpus[b]));
        }
    }
    (void)fprintf(stream, "\n");
}

static void print_text(const launch_nvml *nvml, const launch_gpus *found, FILE *stream)
{
    (void)fprintf(stream, "driver %s\n", or_dash(found->driver));
    for (int i = 0; i < found->count; i++) {
        print_gpu(&found->gpus[i], i, stream);
    }
    if (found->closed > 0) {
        (void)fprintf(stream, "%d more cannot be used: %s\n", found->closed, found->closed_because);
    }
    if (found->count > 1) {
        print_matrix(nvml, found, stream);
    }
}

/* ---- JSON ---- */

static json_t *json_number(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *json_text(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *json_users(const launch_gpu *gpu)
{
    json_t *users = gpu->user_count < 0 ? json_null() : json_array();
    for (int64_t i = 0; i < gpu->user_count; i++) {
        (void)json_array_append_new(users, json_integer((json_int_t)gpu->users[i].pid));
    }
    return users;
}

static json_t *json_gpu(const launch_nvml *nvml, const launch_gpus *found, int index)
{
    const launch_gpu *gpu = &found->gpus[index];
    char reasons[LAUNCH_NVML_TEXT_BYTES];
    json_t *to = json_array();
    for (int other = 0; other < found->count; other++) {
        (void)json_array_append_new(
            to, json_string(launch_gpus_between(nvml, gpu, &found->gpus[other])));
    }
    return json_pack(
        "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o}",
        "index", index, "name", json_text(gpu->name), "uuid", json_text(gpu->uuid), "pci",
        json_text(gpu->pci), "numa_node", json_number(gpu->numa_node), "memory_bytes",
        json_number(gpu->memory_bytes), "memory_free_bytes", json_number(gpu->memory_free_bytes),
        "mig", gpu->mig < 0 ? json_null() : json_boolean(gpu->mig > 0), "nvlinks",
        json_number(gpu->nvlinks), "sm_mhz", json_number(gpu->sm_mhz), "memory_mhz",
        json_number(gpu->memory_mhz), "milliwatts", json_number(gpu->milliwatts), "milliwatts_max",
        json_number(gpu->milliwatts_max), "celsius", json_number(gpu->celsius), "slowed_by",
        json_text(launch_gpu_throttle_text(gpu->throttle, reasons)), "uncorrected_memory_errors",
        json_number(gpu->ecc_errors), "used_by", json_users(gpu), "to", to);
}

static base_status print_json(const launch_nvml *nvml, const launch_gpus *found, FILE *stream,
                              base_error *reterr)
{
    json_t *gpus = json_array();
    for (int i = 0; i < found->count; i++) {
        (void)json_array_append_new(gpus, json_gpu(nvml, found, i));
    }
    json_t *root =
        json_pack("{s:o, s:o, s:i, s:o}", "driver", json_text(found->driver), "gpus", gpus,
                  "unusable", found->closed, "unusable_because", json_text(found->closed_because));
    const bool written = root != NULL && json_dumpf(root, stream, JSON_INDENT(2)) == 0;
    json_decref(root);
    (void)fputc('\n', stream);
    return written ? BASE_OK : base_fail(reterr, BASE_ERR_IO, "cannot write the GPUs as JSON");
}

base_status launch_gpus_print(FILE *stream, bool as_json, base_error *reterr)
{
    launch_nvml nvml;
    base_status status = launch_nvml_open(&nvml, reterr);
    if (status != BASE_OK) {
        return status;
    }
    launch_gpus *found = malloc(sizeof *found);
    status = found != NULL ? launch_gpus_look(&nvml, found, reterr)
                           : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a list of GPUs");
    if (status == BASE_OK && as_json) {
        status = print_json(&nvml, found, stream, reterr);
    } else if (status == BASE_OK) {
        print_text(&nvml, found, stream);
    }
    free(found);
    launch_nvml_close(&nvml);
    return status;
}
