/* `launcher plan`: reads its options, tries the layouts, shows the best. Called by cli.c. */
#include "cli/plan_command.h"

#include <unistd.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "base/path.h"
#include "cli/paths.h"
#include "cli/plan_options.h"
#include "cli/preflight.h"
#include "cli/run_job.h"
#include "pipeline/picture.h"

/* Whether flags say another shape than the model's, but for the context. */
static bool changes_shape(const launch_model *of)
{
    return of->layers != 0 || of->width != 0 || of->heads != 0 || of->vocab_size != 0 ||
           of->kv_heads != 0 || of->head_width != 0 || of->hidden != 0 || of->experts != 0 ||
           of->chosen != 0;
}

static const char *name_of_model(const launch_plan_options *options)
{
    return options->checkpoint[0] != '\0'      ? options->checkpoint
           : changes_shape(&options->model_of) ? "own"
                                               : launch_model_name(options->model);
}

static base_status draw(const launch_estimate *best, const char *path, base_error *reterr)
{
    if (best->layout.pipeline == 1) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--plot draws a pipeline, and this layout has one stage%s",
                         best->run.spans != NULL ? ": --pipeline N" : "");
    }
    return launch_pipeline_picture_write(&best->run, 1, path, reterr);
}

static bool is_usage(base_status status)
{
    return status == BASE_ERR_INVALID || status == BASE_ERR_LIMIT;
}

static bool has_file(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    return base_path_join(directory, name, path, NULL) == BASE_OK && access(path, R_OK) == 0;
}

/* Whether a directory has what a training begins from. Its config.json has been read. */
static bool is_whole(const char *directory)
{
    return has_file(directory, "tokenizer.json") &&
           (has_file(directory, "model.safetensors") ||
            has_file(directory, "model.safetensors.index.json"));
}

/* `known`: ranks know the checkpoint's model, if there is one. */
static launch_plan_source source_of(const launch_plan_options *options, bool known)
{
    const launch_model *of = &options->model_of;
    const bool changed = changes_shape(of) || (of->context != 0 && !options->ask.model.rotated);
    return options->checkpoint[0] == '\0'                       ? LAUNCH_PLAN_SHAPE
           : known && !changed && is_whole(options->checkpoint) ? LAUNCH_PLAN_CHECKPOINT
                                                                : LAUNCH_PLAN_NOWHERE;
}

static int show(const launch_plan_options *options, bool known, const launch_found *found)
{
    base_error error;
    base_status status = BASE_OK;
    const launch_plan plan = {
        .ask = &options->ask,
        .model_name = name_of_model(options),
        .device_name = launch_device_name(options->device),
        .source = source_of(options, known),
        .checkpoint = options->checkpoint,
        .lora_targets = options->lora_targets,
        .found = found,
        .price_micro_per_hour = options->price_micro_per_hour,
        .steps = options->steps,
        .granularity_s = options->granularity_s,
    };
    if (options->picture[0] != '\0') {
        status = draw(&found->estimates[0], options->picture, &error);
    }
    if (status == BASE_OK && options->json) {
        status = launch_plan_print_json(&plan, stdout, &error);
    } else if (status == BASE_OK) {
        launch_plan_print(&plan, stdout);
    }
    if (status != BASE_OK) {
        (void)launch_report_error(&error);
        return is_usage(status) ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
    }
    return found->estimates[0].fits ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}

/* A plan needs the shape alone. Whether the model can be run is another question, and the answer. */
static bool warn_of_checkpoint(const char *directory, const char *rank_path)
{
    base_error error = {.message = ""};
    char beside[BASE_PATH_BYTES];
    int exit_code = BASE_EXIT_ERROR;
    if (rank_path != NULL || launch_path_rank(beside, &error) == BASE_OK) {
        exit_code =
            launch_preflight_model(directory, rank_path != NULL ? rank_path : beside, &error);
    }
    if (exit_code == BASE_EXIT_USAGE) {
        base_log(BASE_LOG_WARNING, "this program does not run that model: %s", error.message);
    } else if (exit_code != BASE_EXIT_DONE) {
        base_log(BASE_LOG_WARNING, "it is not known whether the model can be run: %s",
                 error.message);
    }
    return exit_code == BASE_EXIT_DONE;
}

int launch_plan_command(int argc, char **argv, const char *rank_path)
{
    base_error error;
    launch_plan_options options;
    launch_found found = {.estimates = NULL};
    if (launch_plan_options_parse(argc, argv, &options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s (launcher plan --help lists the flags)", error.message);
        return BASE_EXIT_USAGE;
    }
    if (options.help) {
        launch_plan_options_help(stdout);
        return BASE_EXIT_DONE;
    }
    const bool known =
        options.checkpoint[0] != '\0' && warn_of_checkpoint(options.checkpoint, rank_path);
    int exit_status = BASE_EXIT_ERROR;
    const base_status status =
        launch_plan_search(&options.ask, options.ranks, &options.layout, &found, &error);
    if (status == BASE_OK) {
        exit_status = show(&options, known, &found);
    } else {
        (void)launch_report_error(&error);
        exit_status = is_usage(status) ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
    }
    launch_found_fini(&found);
    return exit_status;
}
