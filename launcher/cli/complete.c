/* Completes a parsed command line from files: default files, the tokenizer's vocabulary, a
 * checkpoint's shape (checkpoint_shape.c). Called by run() in cli.c. */
#include "base/text.h"
#include "cli/checkpoint_shape.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fields.h"
#include "base/json_file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/path.h"
#include "cli/complete_draft.h"
#include "cli/options_modes.h"
#include "cli/paths.h"
#include "cli/prompts.h"
#include "cli/scaling.h"
#include "launch/options.h"
#include "proto/checkpoints.h"
#include "proto/digest.h"
#include "proto/limits.h"
#include "proto/pin.h"

#define CONFIG_NAME "adapter_config.json"

enum { TOKENIZER_BYTES_MAX = 64 << 20, CONFIG_BYTES_MAX = 1 << 20, RECORD_BYTES_MAX = 64 << 20 };

/* One more than the largest id in the tokenizer's vocabulary. */
static base_status read_vocab_size(const char *path, int64_t *vocab_size, base_error *reterr)
{
    json_t *json = NULL;
    const char *word = NULL;
    json_t *id = NULL;
    size_t index = 0;
    int64_t largest = -1;
    const base_status status = base_json_read(path, TOKENIZER_BYTES_MAX, &json, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_object_foreach(json_object_get(json_object_get(json, "model"), "vocab"), word, id)
    {
        largest = json_integer_value(id) > largest ? json_integer_value(id) : largest;
    }
    json_array_foreach(json_object_get(json, "added_tokens"), index, id)
    {
        const int64_t added = json_integer_value(json_object_get(id, "id"));
        largest = added > largest ? added : largest;
    }
    json_decref(json);
    if (largest < 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: not a tokenizer.json with a vocabulary",
                         path);
    }
    *vocab_size = largest + 1;
    return BASE_OK;
}

/* The path of an installed file, for a user who has named none. */
static base_status default_file(char *path, const char *name, base_error *reterr)
{
    char share[BASE_PATH_BYTES];
    if (path[0] != '\0') {
        return BASE_OK;
    }
    const base_status status = base_path_share(share, reterr);
    return status == BASE_OK ? base_path_join(share, name, path, reterr) : status;
}

/* Whatever is read more than once must be a regular file. Opening a FIFO could block, and a device
 * may have no end. */
static base_status check_readable(const char *flag, const char *path, base_error *reterr)
{
    struct stat info;
    if (access(path, R_OK) != 0 || stat(path, &info) != 0) {
        (void)base_fail_errno(reterr, errno, "cannot read %s %s", flag, path);
        return BASE_ERR_INVALID;
    }
    return S_ISREG(info.st_mode) ? BASE_OK
                                 : base_fail(reterr, BASE_ERR_INVALID,
                                             "cannot read %s %s: not a regular file", flag, path);
}

static bool is_gpt2(const char *checkpoint)
{
    json_t *json = NULL;
    const base_status status = launch_checkpoint_config(checkpoint, &json, NULL);
    const char *type = json_string_value(json_object_get(json, "model_type"));
    const bool is = status == BASE_OK && (type == NULL || strcmp(type, "gpt2") == 0);
    json_decref(json);
    return is;
}

/* Checks that a model of that shape can exist. */
static base_status check_shape(const proto_job *job, base_error *reterr)
{
    proto_job likely;
    proto_job_defaults(&likely);
    likely.model = job->model;
    likely.model.adapter[0] = '\0'; /* what asks for another model is checked with the whole job */
    likely.model.experts = 0;
    likely.model.experts_per_token = 0;
    likely.train.batch = 1;
    const base_status status = proto_mode_get(job->job.mode)->trains
                                   ? proto_job_check(&likely, reterr)
                                   : base_fields_check(&proto_job_fields, &likely, reterr);
    return status == BASE_OK ? status
                             : base_error_prepend(reterr, status, "--checkpoint: %s/config.json",
                                                  job->model.checkpoint);
}

/* --context may say fewer tokens than the model can take. Where GPT-2 is trained it may not: each
 * position has parameters. */
static base_status take_context(const launch_options *options, int64_t asked,
                                proto_job_model *model, base_error *reterr)
{
    const bool trains = proto_mode_get(options->job.job.mode)->trains && is_gpt2(model->checkpoint);
    if (!trains && options->context_given && asked < model->context) {
        model->context = asked;
    }
    return model->context <= PROTO_CONTEXT_MAX
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--checkpoint: the model in %s has a context of %" PRId64
                           " tokens, more than %d%s",
                           model->checkpoint, model->context, PROTO_CONTEXT_MAX,
                           trains ? "" : ": take fewer with --context N");
}

/* Notes which flags say another shape than the checkpoint has. */
static void note_shape(launch_options *options, const proto_job_model *asked)
{
    const proto_job_model *has = &options->job.model;
    const struct {
        const char *flag;
        int64_t asked;
        int64_t has;
    } sizes[] = {
        {"width", asked->width, has->width},
        {"layers", asked->layers, has->layers},
        {"heads", asked->heads, has->heads},
        {"context", asked->context, has->context},
    };
    char *text = options->shape_differs;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].asked != sizes[i].has && launch_options_given(options, sizes[i].flag)) {
            base_text_append(text, sizeof options->shape_differs,
                             "%s--%s %" PRId64 " where the checkpoint's model has %" PRId64,
                             text[0] != '\0' ? ", " : "", sizes[i].flag, sizes[i].asked,
                             sizes[i].has);
        }
    }
}

static base_status complete_checkpoint(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    const proto_job_model asked = job->model;
    if (job->model.checkpoint[0] == '\0') {
        return BASE_OK;
    }
    if (access(job->model.checkpoint, F_OK) != 0 && errno == ENOENT) {
        return base_fail(
            reterr, BASE_ERR_NOTFOUND,
            "--checkpoint: there is no %s: training writes one (launcher --ranks 2 --out "
            "DIR), or take a model of Hugging Face",
            job->model.checkpoint);
    }
    struct stat info;
    if (stat(job->model.checkpoint, &info) == 0 && !S_ISDIR(info.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--checkpoint: %s is a file: give the directory that it is in",
                         job->model.checkpoint);
    }
    base_status status = launch_checkpoint_shape(&job->model, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--checkpoint");
    }
    status = take_context(options, asked.context, &job->model, reterr);
    if (status == BASE_OK) {
        status = check_shape(job, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    note_shape(options, &asked);
    char path[BASE_PATH_BYTES];
    status = base_path_join(job->model.checkpoint, "tokenizer.json", path, reterr);
    if (status == BASE_OK && job->data.tokenizer[0] == '\0') {
        if (access(path, F_OK) != 0) {
            return base_fail(reterr, BASE_ERR_NOTFOUND,
                             "--checkpoint: there is no %s (tokenizer.model and vocab.json are not "
                             "read): give --tokenizer FILE",
                             path);
        }
        (void)snprintf(job->data.tokenizer, sizeof job->data.tokenizer, "%s", path);
    }
    return status;
}

/* Whether both are there, and the same. */
static bool is_same_directory(const char *one, const char *other)
{
    struct stat a;
    struct stat b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Whether --lora-merge has written the model in this directory, as its record says. */
static bool is_merged(const char *directory)
{
    json_t *record = NULL;
    char path[BASE_PATH_BYTES];
    const bool read = base_path_join(directory, "manifest.json", path, NULL) == BASE_OK &&
                      base_json_read(path, RECORD_BYTES_MAX, &record, NULL) == BASE_OK;
    const json_t *lora = json_object_get(json_object_get(record, "training"), "lora");
    const bool merged = read && json_is_true(json_object_get(lora, "merge"));
    json_decref(record);
    return merged;
}

/* Finds the adapters: in DIR itself, or below it where --lora-merge has written DIR. The model there
 * has them in it already, so that it is refused as their --checkpoint. */
static base_status find_adapter(proto_job_model *model, base_error *reterr)
{
    static const char *const names[] = {CONFIG_NAME, PROTO_ADAPTER_DIRECTORY "/" CONFIG_NAME, ".."};
    enum { HERE, BELOW, ABOVE, NAMES };
    char paths[NAMES][BASE_PATH_BYTES];
    base_status status = BASE_OK;
    if (model->adapter[0] == '\0') {
        return BASE_OK;
    }
    for (size_t i = 0; status == BASE_OK && i < NAMES; i++) {
        status = base_path_join(model->adapter, names[i], paths[i], reterr);
    }
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--adapter");
    }
    if (is_same_directory(model->checkpoint, model->adapter) ||
        (is_same_directory(model->checkpoint, paths[ABOVE]) && is_merged(model->checkpoint))) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "--adapter %s is of the --checkpoint, whose model has the adapters in it: it "
            "would have them twice; give the model that they were trained on",
            model->adapter);
    }
    if (access(paths[HERE], F_OK) != 0 && access(paths[BELOW], F_OK) == 0) {
        (void)snprintf(model->adapter, sizeof model->adapter, "%.*s",
                       (int)(strlen(paths[BELOW]) - sizeof CONFIG_NAME), paths[BELOW]);
    }
    return BASE_OK;
}

/* Adapters that are trained further keep their rank and what they are multiplied with. What the command line says of
 * these, and of the layers, ranks compare. */
static base_status complete_adapter(proto_job *job, base_error *reterr)
{
    json_t *json = NULL;
    char path[BASE_PATH_BYTES];
    base_status status = find_adapter(&job->model, reterr);
    if (status != BASE_OK || job->model.adapter[0] == '\0' ||
        !proto_mode_get(job->job.mode)->trains) {
        return status;
    }
    status = base_path_join(job->model.adapter, CONFIG_NAME, path, reterr);
    if (status == BASE_OK) {
        status = base_json_read(path, CONFIG_BYTES_MAX, &json, reterr);
    }
    const json_t *rank = json_object_get(json, "r");
    const json_t *alpha = json_object_get(json, "lora_alpha");
    if (status == BASE_OK && (!json_is_integer(rank) || json_integer_value(rank) < 1 ||
                              !json_is_number(alpha) || json_number_value(alpha) <= 0)) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "%s: \"r\" or \"lora_alpha\" is not there, or no number above 0", path);
    }
    if (status == BASE_OK && job->lora.rank == 0) {
        job->lora.rank = json_integer_value(rank);
    }
    if (status == BASE_OK && job->lora.alpha == 0.0) {
        const bool root = json_is_true(json_object_get(json, "use_rslora"));
        job->lora.alpha =
            json_number_value(alpha) * (root ? sqrt((double)json_integer_value(rank)) : 1.0);
    }
    json_decref(json);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--adapter");
}

/* Mode generate reads the model out of an earlier record, which --out names. Beside --checkpoint, --out is where this
 * run's own record goes. */
static base_status complete_out_of_answers(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    if (job->model.checkpoint[0] != '\0' && launch_options_given(options, "out")) {
        return BASE_OK;
    }
    if (options->trace_given && job->output.trace > 0) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "--trace: mode %s keeps a record only with --checkpoint and --out, its own "
            "directory",
            proto_mode_name((int)job->job.mode));
    }
    if (job->model.checkpoint[0] == '\0') {
        (void)snprintf(job->model.checkpoint, sizeof job->model.checkpoint, "%s",
                       job->output.directory);
    }
    job->output.directory[0] = '\0';
    job->output.trace = 0;
    return BASE_OK;
}

static base_status complete_out(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    char out[BASE_PATH_BYTES];
    char directory[BASE_PATH_BYTES];
    if (getcwd(directory, sizeof directory) == NULL) {
        return base_fail_errno(reterr, errno, "cannot find the working directory");
    }
    const base_status status = base_path_join(directory, mode->out, out, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (job->output.directory[0] == '\0') {
        (void)snprintf(job->output.directory, sizeof job->output.directory, "%s", out);
    }
    if (launch_path_resolve(job->output.directory, reterr) != BASE_OK) {
        return base_error_prepend(reterr, BASE_ERR_INVALID, "--out");
    }
    if (mode->answers && mode->checkpoint == NULL) {
        const base_status kept = complete_out_of_answers(options, reterr);
        if (kept != BASE_OK) {
            return kept;
        }
    }
    if (mode->checkpoint != NULL && job->model.checkpoint[0] == '\0') {
        return base_path_join(directory, mode->checkpoint, job->model.checkpoint, reterr);
    }
    return BASE_OK;
}

/* Whether there is a file, and it is a plain text by its name. */
static bool is_plain(const char *path)
{
    return path[0] != '\0' && !base_path_has_json_lines(path) && !base_path_has_tokens(path);
}

/* Where a training of a checkpoint takes another tokenizer: the same tokens may mean others to its model. One with
 * fewer tokens is none that was made from the checkpoint's. */
static base_status compare_tokenizers(const proto_job *job, int64_t vocab_size, base_error *reterr)
{
    char own[BASE_PATH_BYTES];
    uint8_t digests[2][PROTO_DIGEST_BYTES];
    int64_t own_size = 0;
    if (job->model.checkpoint[0] == '\0' ||
        base_path_join(job->model.checkpoint, "tokenizer.json", own, NULL) != BASE_OK ||
        access(own, F_OK) != 0 || proto_sha256_file(own, digests[0], NULL) != BASE_OK ||
        proto_sha256_file(job->data.tokenizer, digests[1], NULL) != BASE_OK ||
        memcmp(digests[0], digests[1], PROTO_DIGEST_BYTES) == 0) {
        return BASE_OK;
    }
    if (read_vocab_size(own, &own_size, NULL) == BASE_OK && vocab_size < own_size) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--tokenizer: %s has %" PRId64 " tokens, and the checkpoint's %s %" PRId64,
                         job->data.tokenizer, vocab_size, own, own_size);
    }
    base_log(BASE_LOG_WARNING,
             "--tokenizer: %s is another file than the checkpoint's %s: its tokens may mean "
             "others to the model",
             job->data.tokenizer, own);
    return BASE_OK;
}

static base_status complete_job(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    const bool trains = proto_mode_get(job->job.mode)->trains;
    base_status status = complete_out(options, reterr);
    if (status == BASE_OK) {
        status = complete_checkpoint(options, reterr);
    }
    if (status == BASE_OK) {
        status = complete_adapter(job, reterr);
    }
    options->installed_data = job->data.train[0] == '\0' && job->data.tokenizer[0] == '\0';
    if (status == BASE_OK && trains) {
        status = default_file(job->data.train, "train.jsonl", reterr);
    }
    if (status == BASE_OK && trains) {
        status = check_readable("--data", job->data.train, reterr);
    }
    if (status == BASE_OK && job->infer.eval) {
        status = default_file(job->data.heldout, "heldout.jsonl", reterr);
    }
    if (status == BASE_OK && job->infer.eval) {
        status = check_readable("--heldout", job->data.heldout, reterr);
    }
    job->data.plain = is_plain(job->data.train);
    job->data.heldout_plain = is_plain(job->data.heldout);
    job->data.tokens = base_path_has_tokens(job->data.train);
    job->data.heldout_tokens = base_path_has_tokens(job->data.heldout);
    if (status == BASE_OK) {
        status = default_file(job->data.tokenizer, "tokenizer.json", reterr);
    }
    if (status == BASE_OK) {
        status = check_readable("--tokenizer", job->data.tokenizer, reterr);
    }
    int64_t vocab_size = 0;
    if (status == BASE_OK) {
        status = read_vocab_size(job->data.tokenizer, &vocab_size, reterr);
        status = status == BASE_OK ? status : base_error_prepend(reterr, status, "--tokenizer");
    }
    if (status == BASE_OK && job->model.checkpoint[0] == '\0') {
        job->model.vocab_size = vocab_size;
    } else if (status == BASE_OK && vocab_size > job->model.vocab_size) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "the tokenizer has %" PRId64 " tokens, the checkpoint's model %" PRId64,
                           vocab_size, job->model.vocab_size);
    }
    if (status == BASE_OK) {
        status = launch_draft_check(job, reterr);
    }
    return status == BASE_OK && trains ? compare_tokenizers(job, vocab_size, reterr) : status;
}

base_status launch_options_complete(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    if (options->job_file[0] != '\0') {
        return BASE_OK;
    }
    base_status status =
        proto_mode_get(job->job.mode)->out != NULL ? complete_job(options, reterr) : BASE_OK;
    if (status == BASE_OK) {
        status = launch_prompts_complete(options, reterr);
    }
    const bool leaves = options->write_job[0] != '\0' || proto_mode_costs_money(job->job.mode) ||
                        options->hosts.nodes > 1;
    return status == BASE_OK ? proto_job_pin(job, leaves ? PROTO_PIN_ALL : PROTO_PIN_SMALL, reterr)
                             : status;
}

base_status launch_options_check(const launch_options *options, base_error *reterr)
{
    const proto_job *job = &options->job;
    if (options->shape_differs[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: it cannot be changed, leave it out",
                         options->shape_differs);
    }
    base_status status = proto_job_check(job, reterr);
    if (status == BASE_OK) {
        status =
            proto_job_check_devices(job, (int)(job->job.world_size / options->hosts.nodes), reterr);
    }
    if (status != BASE_OK && options->job_file[0] == '\0') {
        base_options_name(&proto_job_fields, reterr);
    }
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    for (int i = 0; i < options->scaling_count && status == BASE_OK; i++) {
        const proto_job point = launch_scaling_job(job, options->scaling_ranks[i]);
        if (options->scaling_ranks[i] > mode->ranks_max) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "--scaling %d: mode %s runs on at most %d ranks",
                             options->scaling_ranks[i], mode->name, mode->ranks_max);
        }
        status = mode->pipelined ? proto_job_check(&point, reterr) : BASE_OK;
        if (status != BASE_OK) {
            base_options_name(&proto_job_fields, reterr);
            return base_error_prepend(reterr, status, "--scaling %d", options->scaling_ranks[i]);
        }
    }
    return status;
}
