/* rank --check and --check-model. The first refuses a job before any of its ranks is started, and before it costs anything. The
 * launcher runs it, because only the rank program knows what a checkpoint may contain, has a
 * tokenizer, and is installed beside the GPU's plugin. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "bench/on_device.h"
#include "generate/mode.h"
#include "plugin/plugin.h"
#include "proto/mode.h"
#include "rank/checkpoint.h"
#include "train/mode.h"

static base_status read_job(proto_job *job, base_error *reterr)
{
    void *text = NULL;
    size_t text_bytes = 0;
    base_status status =
        base_file_read("/proc/self/fd/0", PROTO_JOB_BYTES_MAX, &text, &text_bytes, reterr);
    if (status == BASE_OK) {
        status = proto_job_parse(text, text_bytes, job, reterr);
    }
    free(text);
    return status;
}

static base_status check(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    if (mode->measures) {
        return bench_check_words(job->bench.words, (int)job->job.world_size, reterr);
    }
    return mode->answers  ? rank_mode_generate_check(job, reterr)
           : mode->trains ? rank_mode_train_check(job, reterr)
                          : BASE_OK;
}

/* Prints the reason; the exit code. */
static int refuse(base_status status, const base_error *error, int exit_code)
{
    (void)printf("%s\n", error->message);
    return status == BASE_ERR_MEMORY || status == BASE_ERR_IO ? BASE_EXIT_ERROR : exit_code;
}

int rank_check_job(void)
{
    base_error error = {.message = ""};
    proto_job job;
    int exit_code = BASE_EXIT_USAGE;
    base_status status = read_job(&job, &error);
    if (status == BASE_OK) {
        status = check(&job, &error);
    }
    if (status == BASE_OK && proto_mode_get(job.job.mode)->on_gpus) {
        status = rank_plugin_look(job.gpu.libraries, &error);
        exit_code = BASE_EXIT_NO_GPU;
    }
    if (status == BASE_OK) {
        return BASE_EXIT_DONE;
    }
    return refuse(status, &error, exit_code);
}

int rank_check_model(const char *directory)
{
    base_error error = {.message = ""};
    rank_model_config config;
    const base_status status = rank_checkpoint_config(directory, &config, &error);
    return status == BASE_OK ? BASE_EXIT_DONE : refuse(status, &error, BASE_EXIT_USAGE);
}
