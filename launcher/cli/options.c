/* Parses the command line, without looking at files other than JOB.json. Called by cli.c. */
#include "launch/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "cli/option_table.h"
#include "cli/options_budget.h"
#include "cli/options_commands.h"
#include "cli/options_hosts.h"
#include "cli/options_modes.h"
#include "cli/other_names.h"
#include "cli/share.h"
#include "ringfence/coll_error.h"
#include "ringfence/interface.h"
#include "serve/server.h"

static bool is_option(const base_field *row, const char *name)
{
    return strcmp(row->option, name) == 0;
}

/* Notes which options were given. */
static void note_option(void *user, const base_field *row)
{
    launch_options *options = user;
    if (!launch_options_given(options, row->option)) {
        options->given[options->given_count++] = row;
    }
    const bool of_job = row->key != NULL || (row->marks & LAUNCH_MARK_JOB) != 0;
    const bool says_where = is_option(row, "serve"); /* a job has that it takes requests */
    if (of_job && !says_where && options->field_flag == NULL) {
        options->field_flag = row->option;
    }
    if (of_job && options->job_flag == NULL && (row->marks & PROTO_FIELD_EACH_HOST) == 0) {
        options->job_flag = row->option;
    }
    if ((row->marks & LAUNCH_MARK_HOSTS) != 0 && options->hosts_flag == NULL &&
        !is_option(row, "nodes")) {
        options->hosts_flag = row->option;
    }
    options->hosts.nodes_given = options->hosts.nodes_given || is_option(row, "nodes");
    options->hosts.node_rank_given = options->hosts.node_rank_given || is_option(row, "node-rank");
    if ((row->marks & PROTO_FIELD_PROGRAM) == 0 && options->not_for_programs == NULL) {
        options->not_for_programs = row->option;
    }
    if ((row->marks & LAUNCH_MARK_BUDGET) != 0 && options->budget_flag == NULL) {
        options->budget_flag = row->option;
    }
    options->ranks_given = options->ranks_given || (row->marks & PROTO_FIELD_RANKS) != 0;
    options->seed_given = options->seed_given || (row->marks & PROTO_FIELD_SEED) != 0;
    options->buckets_given = options->buckets_given || (row->marks & PROTO_FIELD_BUCKETS) != 0;
    options->trace_given = options->trace_given || (row->marks & PROTO_FIELD_TRACE) != 0;
    options->mode_given = options->mode_given || (row->marks & PROTO_FIELD_MODE) != 0;
    options->shape_given = options->shape_given || (row->marks & PROTO_FIELD_SHAPE) != 0;
    options->context_given = options->context_given || (row->marks & PROTO_FIELD_CONTEXT) != 0;
}

/* The index of "--" in argv; argc if there is none. */
static int find_separator(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        at++;
    }
    return at < argc ? at : argc;
}

static base_status take_program(char **program, launch_options *options, base_error *reterr)
{
    if (program[0] == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "-- must be followed by a program to run");
    }
    if (options->mode_given) {
        return base_fail(reterr, BASE_ERR_INVALID, "--mode does not go with -- %s", program[0]);
    }
    if (options->not_for_programs != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--%s is for our own modes: it does not go with -- %s",
                         options->not_for_programs, program[0]);
    }
    options->program = program;
    options->job.job.mode = PROTO_MODE_PROGRAM;
    return launch_options_check_hosts(options, reterr);
}

/* Whether the file has exactly the bytes that the job would be written as. */
static base_status compare_job(const launch_options *options, const char *root, const void *file,
                               size_t file_bytes, const char *otherwise, base_error *reterr)
{
    char *text = NULL;
    size_t text_bytes = 0;
    base_status status = proto_job_write(&options->job, root, &text, &text_bytes, reterr);
    if (status == BASE_OK && (text_bytes != file_bytes || memcmp(text, file, file_bytes) != 0)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s", otherwise);
    }
    free(text);
    return status;
}

/* Checks that a job of a file does not ask for what its mode does not do. */
static base_status check_asked(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const char *of_training = job->train.save_every > 0   ? "train.save_every"
                              : job->train.resume         ? "train.resume"
                              : job->train.recompute      ? "train.recompute"
                              : job->train.dropout > 0    ? "train.dropout"
                              : job->train.optimizer > 0  ? "train.optimizer"
                              : job->infer.eval_every > 0 ? "infer.eval_every"
                                                          : NULL;
    if (!mode->trains && of_training != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s goes with modes that train: mode %s does not", of_training,
                         mode->name);
    }
    return mode->answers || job->infer.prompts[0] == '\0'
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "infer.prompts goes with modes that answer: mode %s does not",
                           mode->name);
}

/* --job FILE: reads the whole configuration from the file. */
static base_status read_job(launch_options *options, base_error *reterr)
{
    void *file = NULL;
    size_t file_bytes = 0;
    if (options->field_flag != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--job has the whole configuration: --%s does not go with it",
                         options->field_flag);
    }
    base_status status =
        base_file_read(options->job_file, PROTO_JOB_BYTES_MAX, &file, &file_bytes, reterr);
    if (status == BASE_OK) {
        status = proto_job_parse(file, file_bytes, &options->job, reterr);
    }
    if (status == BASE_OK) {
        status = check_asked(&options->job, reterr);
    }
    if (status == BASE_OK) {
        status = compare_job(options, "", file, file_bytes,
                             "not in its canonical form (--write-job writes that)", reterr);
    }
    if (status == BASE_OK) {
        status = proto_job_resolve(&options->job, options->root, reterr);
    }
    if (status == BASE_OK && options->serve[0] != '\0' && !options->job.infer.unrecorded) {
        status = base_fail(reterr, BASE_ERR_INVALID, "it is no job of --serve");
    }
    if (status == BASE_OK && options->serve[0] == '\0' && options->job.infer.unrecorded) {
        status = base_fail(reterr, BASE_ERR_INVALID, "it is a job of --serve: say HOST:PORT");
    }
    if (status == BASE_OK) { /* a token is for exactly these bytes */
        status = compare_job(options, options->root, file, file_bytes,
                             "has an absolute path to what is below --root", reterr);
    }
    free(file);
    return status == BASE_OK ? status
                             : base_error_prepend(reterr, status, "--job %s", options->job_file);
}

/* Checks --save-every, --keep, --resume and --max-restarts. */
static base_status check_restarts(const launch_options *options, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(options->job.job.mode);
    const proto_job_train *train = &options->job.train;
    const launch_hosts_options *hosts = &options->hosts;
    const bool here =
        hosts->node_rank == 0; /* another host's launcher takes the job from the head */
    if (hosts->min_nodes > 0 && here) {
        const base_status status =
            launch_share_check(&options->job, (int)hosts->nodes, (int)hosts->min_nodes, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    if (train->keep > 0 && train->save_every == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "--keep goes with --save-every");
    }
    if (train->resume && options->overwrite) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--resume goes on with the record in --out, and --overwrite removes it: "
                         "leave one of them out");
    }
    if (options->max_restarts == 0 || mode->may_restart) {
        return BASE_OK;
    }
    if (mode->trains && here && (train->save_every == 0 || !train->resume)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--max-restarts of a training needs --save-every N and --resume: else "
                         "it would begin anew");
    }
    return mode->trains ? BASE_OK
                        : base_fail(reterr, BASE_ERR_INVALID,
                                    "--max-restarts goes with trainings, gate-check and -- "
                                    "PROGRAM; --mode %s would begin anew: run the command again",
                                    mode->name);
}

/* Checks the flags of requests that come while the job runs. */
static base_status check_requests(const launch_options *options, base_error *reterr)
{
    const bool serves = options->serve[0] != '\0';
    if (options->stream != LAUNCH_STREAM_TEXT && (!options->job.infer.requests || serves)) {
        return base_fail(reterr, BASE_ERR_INVALID, "--stream goes with --prompts -");
    }
    if (serves && (options->standard_input || options->job.infer.prompts[0] != '\0')) {
        return base_fail(reterr, BASE_ERR_INVALID, "--serve or --prompts, not both");
    }
    if (options->job.infer.no_prefix_cache && !options->job.infer.requests) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--no-prefix-cache goes with --serve and --prompts -");
    }
    if (options->job.infer.no_thinking && !options->job.infer.chat &&
        !options->job.infer.requests) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--no-thinking goes with --chat, --serve and --prompts -");
    }
    if (options->job.data.chat_date[0] != '\0' && proto_mode_get(options->job.job.mode)->answers &&
        !options->job.infer.chat && !options->job.infer.requests) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--chat-date goes with --chat, --serve and --prompts -");
    }
    if (serves && options->job.infer.logprob_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--logprobs goes with --prompt and --prompts: a server's clients ask for "
                         "them in their requests");
    }
    if (serves && options->job.infer.chat) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "--chat goes with --prompt and --prompts: a server answers chats in any case, "
            "at /v1/chat/completions");
    }
    if (serves) {
        return launch_server_check(&(launch_server_options){.address = options->serve,
                                                            .key_file = options->serve_key_file,
                                                            .origin = options->serve_origin,
                                                            .open = options->serve_open},
                                   reterr);
    }
    const char *flag = options->serve_key_file[0] != '\0'      ? "serve-key-file"
                       : options->serve_open                   ? "serve-open"
                       : options->serve_origin[0] != '\0'      ? "serve-origin"
                       : options->serve_drain_ms != 0          ? "serve-drain"
                       : options->served_model_name[0] != '\0' ? "served-model-name"
                                                               : NULL;
    return flag == NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "--%s goes with --serve HOST:PORT", flag);
}

/* Drafts are checked beside other rows. These may change a row's bits where products are a library's, or where the
 * order of a sum depends on its place in the vector. */
static base_status check_drafts(const proto_job *job, base_error *reterr)
{
    const proto_algorithm algorithm = job->parallel.algorithm;
    const char *flag = job->model.draft[0] != '\0' ? "draft" : "speculate";
    if (job->infer.speculate == 0) {
        return BASE_OK;
    }
    if (proto_mode_get(job->job.mode)->on_gpus) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--%s goes with modes on CPUs (generate, tp-cpu): on GPUs a "
                         "token's bits may depend on the rows beside it",
                         flag);
    }
    if (algorithm == PROTO_ALGORITHM_RING || algorithm == PROTO_ALGORITHM_TREE) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--%s does not go with --algorithm %s: a token's bits may depend "
                         "on the rows beside it",
                         flag, proto_algorithm_name((int)algorithm));
    }
    return BASE_OK;
}

/* Checks what can be checked of --interface without a look at this host's. */
static base_status check_interface(const launch_options *options, base_error *reterr)
{
    const base_status status =
        (base_status)coll_interface_check(options->job.parallel.interface, coll_error_of(reterr));
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--interface");
}

/* What goes with another flag, where nobody says: of local steps what stands behind a round, and how much a
 * model drafts. */
static void complete_others(launch_options *options)
{
    proto_job *job = &options->job;
    const bool local = proto_job_is_local(job);
    if (local && !launch_options_given(options, "outer-lr")) {
        job->train.outer_learning_rate = PROTO_OUTER_LEARNING_RATE;
    }
    if (local && !launch_options_given(options, "outer-momentum")) {
        job->train.outer_momentum = PROTO_OUTER_MOMENTUM;
    }
    if (job->model.draft[0] != '\0' && !launch_options_given(options, "speculate")) {
        job->infer.speculate = PROTO_DRAFT_TOKENS;
    }
}

/* Checks what a training's schedule and its files must have in common. */
static base_status check_training(const launch_options *options, base_error *reterr)
{
    const proto_job *job = &options->job;
    const bool trains = proto_mode_get(job->job.mode)->trains;
    if (launch_options_given(options, "lr-min") && job->train.schedule == PROTO_SCHEDULE_CONSTANT) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--lr-min goes with --schedule cosine or linear");
    }
    if (trains && job->infer.eval && launch_options_given(options, "data") &&
        job->data.heldout[0] == '\0') {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "--eval and --eval-every of a training with --data need --heldout FILE: the corpus's "
            "held-out sentences are for the corpus");
    }
    if (trains && job->data.chat_date[0] != '\0' && job->model.checkpoint[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--chat-date of a training goes with --checkpoint, which has the chat "
                         "template");
    }
    const char *const text = job->data.train;
    const bool plain = text[0] != '\0' && !base_path_has_json_lines(text);
    if (launch_options_given(options, "loss-on") && trains &&
        job->data.loss_on == PROTO_LOSS_ON_CORRECTION && (job->data.windows || plain)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--loss-on correction does not go with %s: all tokens of a window are "
                         "targets",
                         base_path_has_tokens(text) ? "a file of tokens"
                         : plain                    ? "a plain text"
                                                    : "--windows");
    }
    return BASE_OK;
}

/* None where its time would count: what --baseline and --curve compare is measured alike. */
static int64_t default_trace(const proto_job *job)
{
    const bool compares = job->infer.baseline || job->infer.curve[0] != '\0';
    return compares ? 0 : proto_mode_get(job->job.mode)->trace;
}

/* Checks what several flags must have in common. */
static base_status check_together(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const bool cloud = proto_mode_costs_money(job->job.mode);
    if (!options->ranks_given && options->job_file[0] == '\0') {
        job->job.world_size = mode->ranks;
    }
    const base_status hosts = launch_options_check_hosts(options, reterr);
    if (hosts != BASE_OK) {
        return hosts;
    }
    if (!options->seed_given && options->job_file[0] == '\0' && mode->seed != 0) {
        job->job.seed = mode->seed;
    }
    if (!options->buckets_given && options->job_file[0] == '\0' && mode->bucket_bytes != 0) {
        job->parallel.bucket_bytes = mode->bucket_bytes;
    }
    if (!options->trace_given && options->job_file[0] == '\0') {
        job->output.trace = default_trace(job);
    }
    if (job->infer.eval_every > 0 && options->job_file[0] == '\0') {
        job->infer.eval = true;
    }
    if (job->train.patience > 0 && options->job_file[0] == '\0') {
        job->train.keep_best = true;
    }
    if (options->job_file[0] == '\0') {
        complete_others(options);
    }
    const base_status modes = launch_options_check_modes(options, reterr);
    if (modes != BASE_OK) {
        return modes;
    }
    const base_status training = check_training(options, reterr);
    if (training != BASE_OK) {
        return training;
    }
    const bool prompts =
        options->prompt_count > 0 || job->infer.prompts[0] != '\0' || job->infer.requests;
    if (mode->answers && !prompts && !job->infer.eval) {
        return base_fail(reterr, BASE_ERR_INVALID, "--mode %s needs --prompt(s)%s or --eval",
                         mode->name, mode->tensor_parallel ? ", --serve" : "");
    }
    if (options->prompt_count > 0 && (job->infer.prompts[0] != '\0' || job->infer.requests)) {
        return base_fail(reterr, BASE_ERR_INVALID, "--prompt or --%s, not both",
                         options->serve[0] != '\0' ? "serve" : "prompts");
    }
    const base_status requests = check_requests(options, reterr);
    if (requests != BASE_OK) {
        return requests;
    }
    const base_status drafts = check_drafts(job, reterr);
    if (drafts != BASE_OK) {
        return drafts;
    }
    if (!cloud && options->hosts.node_rank == 0 && options->budget_flag != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--%s goes with a mode that may cost money; %s does not",
                         options->budget_flag, mode->name);
    }
    if (cloud && options->scaling_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--scaling runs more jobs, and the token of --mode %s is for one",
                         mode->name);
    }
    const base_status restarts = check_restarts(options, reterr);
    if (restarts != BASE_OK) {
        return restarts;
    }
    return cloud ? launch_options_check_budget(options, reterr) : BASE_OK;
}

base_status launch_options_parse(int argc, char **argv, launch_options *options, base_error *reterr)
{
    launch_options_defaults(options);
    const base_option_set sets[] = {
        {.fields = &proto_job_fields, .record = &options->job},
        {.fields = &launch_option_fields, .record = options},
    };
    int rest = 0;
    const int separator = find_separator(argc, argv);
    const bool has_program = separator < argc;
    argc = separator;
    const base_command_line line = {.argc = argc,
                                    .argv = argv,
                                    .sets = sets,
                                    .set_count = sizeof sets / sizeof sets[0],
                                    .seen = note_option,
                                    .user = options,
                                    .others = launch_other_names,
                                    .other_count = LAUNCH_OTHER_NAMES};
    base_status status = base_options_parse(&line, &rest, reterr);
    if (status == BASE_OK && options->action == LAUNCH_ACTION_RUN) {
        status = check_interface(options, reterr);
    }
    if (status != BASE_OK || options->action != LAUNCH_ACTION_RUN) {
        return status;
    }
    if (has_program && rest < argc) {
        return base_fail(reterr, BASE_ERR_INVALID, "unexpected argument '%s'", argv[rest]);
    }
    if (has_program) {
        return take_program(&argv[separator + 1], options, reterr);
    }
    if (options->job.job.mode == PROTO_MODE_PROGRAM) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--mode program is: launcher --ranks N -- PROGRAM ARGUMENTS");
    }
    if (rest < argc) {
        return launch_options_take_command(argc - rest, argv + rest, options, reterr);
    }
    if (options->json) {
        return base_fail(reterr, BASE_ERR_INVALID, "--json goes with launcher gpus and plan");
    }
    if (options->job_file[0] != '\0') {
        status = read_job(options, reterr);
        status = status == BASE_OK ? check_interface(options, reterr) : status;
    }
    status = status == BASE_OK ? check_together(options, reterr) : status;
    /* behind the digests that hosts compare: "today" is the same flag on each, and the head's day counts */
    char *date = options->job.data.chat_date;
    return status == BASE_OK && date[0] != '\0' ? proto_chat_date_resolve(date, date, reterr)
                                                : status;
}
