/* Makes, parses and checks JOB.json. The launcher makes it and every rank parses it. Its fields are
 * in job_fields.c. */
#include "proto/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/fields_json.h"
#include "base/path.h"
#include "job_layout.h"

void proto_job_defaults(proto_job *job)
{
    *job = (proto_job){
        .job = {.version = PROTO_JOB_VERSION,
                .mode = PROTO_MODE_DDP_CPU,
                .world_size = 2,
                .seed = 35000},
        .model = {.vocab_size = 512, .width = 128, .layers = 2, .heads = 4, .context = 64},
        .train = {.steps = 100,
                  .batch = 16,
                  .micro_batches = 1,
                  .learning_rate = 3e-4,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .epsilon = 1e-8,
                  .weight_decay = 0.01,
                  .clip_norm = 1.0},
        .parallel = {.bucket_bytes = 512 * 1024,
                     .timeout_ms = 300 * 1000,
                     .join_timeout_ms = 30 * 1000,
                     .threads_per_rank = 1},
        .infer = {.max_new_tokens = 64,
                  .max_num_seqs = 16,
                  .top_p = 1.0,
                  .repetition_penalty = 1.0},
    };
}

static base_status check_sampling(const proto_job *job, base_error *reterr)
{
    const proto_job_infer *infer = &job->infer;
    const bool narrowed = infer->top_k != 0 || infer->top_p != 1.0 || infer->min_p != 0.0;
    if (infer->temperature == 0.0 && narrowed) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "infer.%s without infer.temperature: the most probable token is taken",
                         infer->top_k != 0     ? "top_k"
                         : infer->top_p != 1.0 ? "top_p"
                                               : "min_p");
    }
    return infer->temperature == 0.0 || infer->temperature >= PROTO_TEMPERATURE_MIN
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "infer.temperature %g: must be 0 or %g to %g",
                           infer->temperature, PROTO_TEMPERATURE_MIN, PROTO_TEMPERATURE_MAX);
}

static base_status check_requests(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    if (!job->infer.requests && !job->infer.unrecorded) {
        return BASE_OK;
    }
    if (!mode->tensor_parallel) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "prompts can come while a job runs only if its ranks hold "
                         "one model; mode %s has none",
                         mode->name);
    }
    if (!job->infer.requests) {
        return base_fail(reterr, BASE_ERR_INVALID, "infer.unrecorded goes with infer.requests");
    }
    return job->infer.prompts[0] == '\0' && !job->infer.baseline
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "infer.%s with prompts that come while the job runs, and are not known "
                           "before",
                           job->infer.baseline ? "baseline" : "prompts");
}

/* The entry of the list that begins at *at, which then stands behind it. False: it is none. */
static bool next_device(const char **at, char device[PROTO_DEVICE_BYTES])
{
    static const char known[] = "0123456789abcdefABCDEFGPUMIG-/";
    const size_t length = strspn(*at, known);
    if (length == 0 || length >= PROTO_DEVICE_BYTES ||
        ((*at)[length] != ',' && (*at)[length] != '\0')) {
        return false;
    }
    memcpy(device, *at, length);
    device[length] = '\0';
    *at += length;
    return true;
}

/* Whether one of the list's first `count` entries is this one. */
static bool has_device(const char *list, int count, const char *device)
{
    char earlier[PROTO_DEVICE_BYTES];
    const char *at = list;
    bool found = false;
    for (int i = 0; i < count && !found; i++) {
        at += i > 0 ? 1 : 0; /* the comma */
        found = next_device(&at, earlier) && strcmp(earlier, device) == 0;
    }
    return found;
}

int proto_job_device_count(const proto_job *job)
{
    char device[PROTO_DEVICE_BYTES];
    const char *at = job->gpu.devices;
    int count = 0;
    while (*at != '\0' || count > 0) {
        if (count == BASE_RANKS_MAX || !next_device(&at, device) ||
            has_device(job->gpu.devices, count, device)) {
            return -1;
        }
        count++;
        if (*at == '\0') {
            break;
        }
        at++; /* the comma */
    }
    return count;
}

void proto_job_device(const proto_job *job, int local_rank, char device[PROTO_DEVICE_BYTES])
{
    const char *at = job->gpu.devices;
    const int index = job->gpu.shared ? 0 : local_rank;
    if (*at == '\0') {
        (void)snprintf(device, PROTO_DEVICE_BYTES, "%d", index);
        return;
    }
    for (int i = 0; i <= index; i++) {
        at += i > 0 ? 1 : 0;
        const bool found = next_device(&at, device);
        BASE_ASSERT(found);
    }
}

base_status proto_job_check_devices(const proto_job *job, int local_ranks, base_error *reterr)
{
    const int listed = proto_job_device_count(job);
    return listed == 0 || listed >= local_ranks || job->gpu.shared
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "gpu.devices %s: %d for %d ranks of a host, and each rank needs one",
                           job->gpu.devices, listed, local_ranks);
}

static base_status check_algorithm(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const proto_algorithm algorithm = job->parallel.algorithm;
    const bool any = algorithm == PROTO_ALGORITHM_AUTO || algorithm == PROTO_ALGORITHM_DIRECT;
    const bool native = algorithm == PROTO_ALGORITHM_NATIVE;
    if (any || native == mode->on_gpus) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_INVALID, "parallel.algorithm %s: mode %s has %s",
                     proto_algorithm_name(algorithm), mode->name,
                     mode->on_gpus ? "auto, direct and native" : "no native one");
}

static base_status check_precision(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const char *name = proto_precision_name((int)job->gpu.precision);
    if (job->gpu.precision == PROTO_PRECISION_FLOAT32) {
        return BASE_OK;
    }
    if (!mode->on_gpus || mode->measures) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "mode %s has float32 only: leave out --precision %s", mode->name, name);
    }
    if (job->gpu.exact) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--exact has float32 only: leave out --precision %s", name);
    }
    return BASE_OK;
}

static base_status check_weights(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    return job->infer.weights == PROTO_WEIGHTS_CHECKPOINT || (mode->answers && !mode->on_gpus)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--weights %s goes with generate and tp-cpu, not with %s",
                           proto_weights_name((int)job->infer.weights), mode->name);
}

/* What a mode that answers decodes with. */
static base_status check_decoding(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const base_status status = check_weights(job, reterr);
    if (status != BASE_OK || job->model.draft[0] == '\0') {
        return status;
    }
    if (!mode->answers || mode->on_gpus) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.draft goes with generate and tp-cpu, not with %s", mode->name);
    }
    return job->infer.speculate > 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "model.draft drafts tokens: infer.speculate 0 asks for none");
}

/* Only some modes trace their steps. A record of answers is rank 0's, which has to have all of them. */
static base_status check_output(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    if (mode->answers && !mode->tensor_parallel && job->job.world_size > 1 &&
        job->output.directory[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--out: each of several ranks in mode %s answers prompts of its own, and "
                         "none has a record of all: take --ranks 1, or --mode tp-cpu",
                         mode->name);
    }
    if (job->output.trace == 0 || mode->trace > 0) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "output.trace %" PRId64 " goes with modes whose steps are traced (ddp-cpu, "
                     "pp-cpu, generate, tp-cpu), not with %s",
                     job->output.trace, mode->name);
}

/* Checks the fields of modes on GPUs, and one that these do not have. */
static base_status check_gpu(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const proto_job_gpu *gpu = &job->gpu;
    const int listed = proto_job_device_count(job);
    const bool given = gpu->devices[0] != '\0' || gpu->libraries[0] != '\0' || gpu->exact ||
                       gpu->nccl_native || gpu->mixed || gpu->shared;
    if (given && !mode->on_gpus) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "gpu: its fields are for modes on GPUs, and mode %s is none", mode->name);
    }
    if (mode->measures != (job->bench.words[0] != '\0')) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "bench.words: what mode bench-nccl needs, and no "
                         "other mode has");
    }
    if (listed < 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "gpu.devices %s: must be different numbers or UUIDs of GPUs, at most %d, "
                         "as in 0,1 (launcher gpus lists them)",
                         gpu->devices, BASE_RANKS_MAX);
    }
    if (gpu->shared && mode->trains && job->train.steps > PROTO_SHARED_GPU_STEPS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "gpu.shared is for tests, of at most %d steps",
                         PROTO_SHARED_GPU_STEPS_MAX);
    }
    return check_output(job, reterr);
}

/* Checks what several fields must have in common. */
static base_status check_together(const proto_job *job, base_error *reterr)
{
    static base_status (*const checks[])(const proto_job *, base_error *) = {
        check_requests,       check_algorithm,       check_gpu,
        check_precision,      check_decoding,        proto_job_check_layout,
        proto_job_check_lora, proto_job_check_local, proto_job_check_experts,
        check_sampling,
    };
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    if (job->job.world_size < mode->ranks_min || job->job.world_size > mode->ranks_max) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "job.world_size %" PRId64 ": mode %s runs on %d to %d ranks",
                         job->job.world_size, mode->name, mode->ranks_min, mode->ranks_max);
    }
    if (mode->trains && proto_job_check_training(job, reterr) != BASE_OK) {
        return BASE_ERR_INVALID;
    }
    if (job->infer.eval_every > 0 && !job->infer.eval) {
        return base_fail(reterr, BASE_ERR_INVALID, "infer.eval_every without infer.eval");
    }
    if (job->train.learning_rate_min > job->train.learning_rate) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.learning_rate_min %g is above train.learning_rate %g",
                         job->train.learning_rate_min, job->train.learning_rate);
    }
    if (job->infer.baseline && !mode->tensor_parallel) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "infer.baseline compares a model that is cut between ranks: mode %s has "
                         "none",
                         mode->name);
    }
    int widths[PROTO_CURVE_WIDTHS_MAX];
    if (proto_job_curve(job, widths) < 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "infer.curve %s: must be at most %d widths, multiples of %d up to %d, as "
                         "in 64,256,1024,4096",
                         job->infer.curve, PROTO_CURVE_WIDTHS_MAX, PROTO_CURVE_WIDTH_UNIT,
                         PROTO_CURVE_WIDTH_MAX);
    }
    if (job->infer.curve[0] != '\0' &&
        (!mode->tensor_parallel || mode->on_gpus || job->job.world_size < 2)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "infer.curve compares one rank with several that share a model, on CPUs: "
                         "it goes with --mode tp-cpu and 2 ranks or more");
    }
    if (job->infer.baseline && job->job.world_size < 2) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "infer.baseline compares with one rank, and one rank is all there is");
    }
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof checks / sizeof checks[0]; i++) {
        status = checks[i](job, reterr);
    }
    return status;
}

base_status proto_job_check(const proto_job *job, base_error *reterr)
{
    const base_status status = base_fields_check(&proto_job_fields, job, reterr);
    return status == BASE_OK ? check_together(job, reterr) : status;
}

/* The part of the path below root; the whole path if it is elsewhere. */
static const char *below(const char *path, const char *root)
{
    const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    return root[0] != '\0' && strncmp(path, root, length) == 0 && path[length] == '/' &&
                   path[length + 1] != '\0'
               ? path + length + 1
               : path;
}

base_status proto_job_write(const proto_job *job, const char *root, char **text, size_t *text_bytes,
                            base_error *reterr)
{
    proto_job written = *job;
    const base_status status = proto_job_check(job, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; i < proto_job_fields.count; i++) {
        const base_field *field = &proto_job_fields.rows[i];
        char *path = (char *)&written + field->offset;
        if (field->kind == BASE_FIELD_PATH) {
            const char *rest = below(path, root);
            memmove(path, rest, strlen(rest) + 1);
        }
    }
    return base_fields_write_json(&proto_job_fields, &written, PROTO_JOB_BYTES_MAX, text,
                                  text_bytes, reterr);
}

base_status proto_job_resolve(proto_job *job, const char *root, base_error *reterr)
{
    for (int i = 0; i < proto_job_fields.count; i++) {
        char whole[BASE_PATH_BYTES];
        const base_field *field = &proto_job_fields.rows[i];
        char *path = (char *)job + field->offset;
        if (field->kind != BASE_FIELD_PATH || path[0] == '\0' || path[0] == '/') {
            continue;
        }
        if (root[0] != '/') {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s is %s, below the job's root: launcher --root DIR says where that "
                             "is",
                             field->key, path);
        }
        const base_status status = base_path_join(root, path, whole, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s", field->key);
        }
        memcpy(path, whole, strlen(whole) + 1);
    }
    return BASE_OK;
}

base_status proto_job_relocate(proto_job *job, const char *directory, base_error *reterr)
{
    for (int i = 0; i < proto_job_fields.count; i++) {
        char beside[BASE_PATH_BYTES];
        char whole[BASE_PATH_BYTES];
        const base_field *field = &proto_job_fields.rows[i];
        char *path = (char *)job + field->offset;
        if (field->kind != BASE_FIELD_PATH || path[0] == '\0' || path == job->gpu.libraries) {
            continue;
        }
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;
        base_status status = base_path_join(directory, field->key, beside, reterr);
        if (status == BASE_OK) {
            status = base_path_join(beside, name[0] != '\0' ? name : "root", whole, reterr);
        }
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s", field->key);
        }
        memcpy(path, whole, strlen(whole) + 1);
    }
    return BASE_OK;
}

base_status proto_job_parse(const void *text, size_t text_bytes, proto_job *job, base_error *reterr)
{
    proto_job parsed = {.job = {.version = 0}};
    base_status status = base_fields_parse_json(&proto_job_fields, text, text_bytes,
                                                PROTO_JOB_BYTES_MAX, &parsed, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = check_together(&parsed, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "JOB.json");
    }
    *job = parsed;
    return BASE_OK;
}
