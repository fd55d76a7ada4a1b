/* Writes and reads training.json of a checkpoint, and compares it with a job. Called by save.c and
 * resume.c. */
#include "train/training_state.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields_json.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"

enum {
    VERSION = 1,
    SLOTS_MAX = 1 << 16,      /* more than rank_data_open takes is in no file */
    POSITION_TEXT_BYTES = 11, /* of one in the array, with its comma */
    FILE_TEXT_BYTES = TRAINER_MOMENTS_NAME_BYTES + PROTO_DIGEST_HEX_BYTES + 6,
    TEXT_BYTES_MAX =
        SLOTS_MAX * POSITION_TEXT_BYTES + 2 * BASE_COLL_RANKS_MAX * FILE_TEXT_BYTES + 4096,
};

static const char FILE_NAME[] = "training.json";
static const char RANK_FILES[] = "moments_sha256";

#define STATE(kind, member) .key = #member, BASE_##kind(rank_training_state, member)

static const base_field rows[] = {
    {STATE(INT, version), .least = VERSION, .most = VERSION},
    {STATE(INT, course.slots), .least = 1, .most = SLOTS_MAX},
    {STATE(INT, course.batch), .least = 1, .most = INT32_MAX},
    {STATE(INT, course.context), .least = 1, .most = INT32_MAX},
    {STATE(INT, course.seed), .least = 0, .most = INT64_MAX},
    {STATE(ENUM, course.loss_on), .name_of = proto_loss_on_name},
    {STATE(BOOL, course.windows), .optional = true},
    {STATE(TEXT, course.chat_date), .optional = true},
    {STATE(DIGEST, course.data_sha256), .filled = true},
    {STATE(DIGEST, course.tokenizer_sha256), .filled = true},
    {STATE(DIGEST, course.heldout_sha256), .optional = true},
    {STATE(INT, lora.rank), .least = 0, .most = PROTO_LORA_RANK_MAX, .optional = true},
    {STATE(REAL, lora.alpha), .min = 0, .max = 1e6, .optional = true},
    {STATE(TEXT, lora.targets), .optional = true},
    {STATE(DIGEST, lora.frozen_blake2b256), .optional = true},
    {STATE(DIGEST, sha256.model), .optional = true},
    {STATE(DIGEST, sha256.first_moments), .optional = true},
    {STATE(DIGEST, sha256.second_moments), .optional = true},
    {STATE(DIGEST, sha256.outer_momentum), .optional = true},
    {STATE(INT, local.steps), .least = 2, .most = INT64_MAX, .optional = true},
    {STATE(INT, local.ranks), .least = 1, .most = BASE_COLL_RANKS_MAX, .optional = true},
    {STATE(REAL, local.outer_learning_rate), .min = 0, .max = 100, .optional = true},
    {STATE(REAL, local.outer_momentum), .min = 0, .max = 1, .optional = true},
    {STATE(INT, optimizer.steps), .least = 1, .most = INT64_MAX, .optional = true},
    {STATE(INT, optimizer.warmup_steps), .least = 0, .most = INT64_MAX, .optional = true},
    {STATE(ENUM, optimizer.schedule), .name_of = proto_schedule_name, .optional = true},
    {STATE(ENUM, optimizer.kind), .name_of = proto_optimizer_name, .optional = true},
    {STATE(REAL, optimizer.muon_momentum), .min = 0, .max = 1, .optional = true},
    {STATE(REAL, optimizer.learning_rate), .min = 0, .max = 100, .optional = true},
    {STATE(REAL, optimizer.learning_rate_min), .min = 0, .max = 100, .optional = true},
    {STATE(REAL, optimizer.beta1), .min = 0, .max = 1, .optional = true},
    {STATE(REAL, optimizer.beta2), .min = 0, .max = 1, .optional = true},
    {STATE(REAL, optimizer.weight_decay), .min = 0, .max = 100, .optional = true},
    {STATE(REAL, optimizer.clip_norm), .min = 0, .max = 1e9, .optional = true},
    {STATE(REAL, optimizer.dropout), .min = 0, .max = 1, .optional = true},
    {STATE(DIGEST, sha256.best), .optional = true},
    {STATE(INT, best.step), .least = 0, .most = INT64_MAX, .optional = true},
    {STATE(REAL, best.loss), .min = 0, .max = 1e300, .optional = true},
    {STATE(INT, best.waited), .least = 0, .most = INT64_MAX, .optional = true},
    {STATE(INT, step), .least = 0, .most = INT64_MAX},
    {STATE(INT, epoch), .least = 0, .most = INT64_MAX},
    {STATE(BOOL, epoch_ended)},
};

static const base_fields fields = {
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .what = FILE_NAME,
};

base_status rank_training_course_of(const proto_job *job, rank_training_course *course,
                                    base_error *reterr)
{
    *course = (rank_training_course){
        .slots = proto_job_replicas(job) * job->train.micro_batches,
        .batch = job->train.batch,
        .context = job->model.context,
        .seed = job->job.seed,
        .loss_on = job->data.loss_on,
        .windows = proto_job_cuts_windows(job),
    };
    memcpy(course->chat_date, job->data.chat_date, sizeof course->chat_date);
    base_status status = rank_training_file_hex(job->data.train, course->data_sha256, reterr);
    if (status == BASE_OK && job->train.keep_best) {
        status = rank_training_file_hex(job->data.heldout, course->heldout_sha256, reterr);
    }
    return status == BASE_OK
               ? rank_training_file_hex(job->data.tokenizer, course->tokenizer_sha256, reterr)
               : status;
}

base_status rank_training_course_check(const rank_training_course *saved,
                                       const rank_training_course *now, base_error *reterr)
{
    const struct {
        const char *what;
        int64_t saved;
        int64_t now;
    } numbers[] = {
        {"replicas × --micro-batches", saved->slots, now->slots},
        {"--batch", saved->batch, now->batch},
        {"--context", saved->context, now->context},
        {"--seed", saved->seed, now->seed},
        {"--windows", saved->windows, now->windows},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].saved != numbers[i].now) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "it was written with %s %" PRId64 ", and this job has %" PRId64,
                             numbers[i].what, numbers[i].saved, numbers[i].now);
        }
    }
    if (!now->windows && saved->loss_on != now->loss_on) { /* of windows all tokens are targets */
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was written with --loss-on %s, and this job has %s",
                         proto_loss_on_name(saved->loss_on), proto_loss_on_name(now->loss_on));
    }
    if (strcmp(saved->chat_date, now->chat_date) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was written with --chat-date %s, and this job has %s",
                         saved->chat_date[0] != '\0' ? saved->chat_date : "none",
                         now->chat_date[0] != '\0' ? now->chat_date : "none");
    }
    const bool same_data = strcmp(saved->data_sha256, now->data_sha256) == 0;
    if (same_data && strcmp(saved->tokenizer_sha256, now->tokenizer_sha256) == 0) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "it was written with other %s (SHA-256 %.12s…, this job's %.12s…)",
                     same_data ? "tokens (--tokenizer)" : "data (--data)",
                     same_data ? saved->tokenizer_sha256 : saved->data_sha256,
                     same_data ? now->tokenizer_sha256 : now->data_sha256);
}

base_status rank_training_lora_check(const rank_training_lora *saved, const rank_training_lora *now,
                                     base_error *reterr)
{
    if (saved->rank != now->rank) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was written with --lora %" PRId64 ", and this job has %" PRId64,
                         saved->rank, now->rank);
    }
    if (saved->alpha != now->alpha) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was written with --lora-alpha %g, and this job has %g", saved->alpha,
                         now->alpha);
    }
    if (strcmp(saved->targets, now->targets) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was written with --lora-targets %s, and this job has %s",
                         saved->targets, now->targets);
    }
    return strcmp(saved->frozen_blake2b256, now->frozen_blake2b256) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "its adapters are of another model than that of --checkpoint "
                           "(BLAKE2b-256 %.12s…, now %.12s…)",
                           saved->frozen_blake2b256, now->frozen_blake2b256);
}

rank_training_local rank_training_local_of(const proto_job *job)
{
    const proto_job_train *train = &job->train;
    return proto_job_is_local(job)
               ? (rank_training_local){.steps = train->local_steps,
                                       .ranks = job->job.world_size,
                                       .outer_learning_rate = train->outer_learning_rate,
                                       .outer_momentum = train->outer_momentum}
               : (rank_training_local){.steps = 0};
}

base_status rank_training_local_check(const rank_training_local *saved,
                                      const rank_training_local *now, base_error *reterr)
{
    const struct {
        const char *what;
        double saved;
        double now;
    } numbers[] = {
        {"--local-steps", saved->steps > 0 ? (double)saved->steps : 1,
         now->steps > 0 ? (double)now->steps : 1},
        {"--ranks", (double)saved->ranks, (double)now->ranks},
        {"--outer-lr", saved->outer_learning_rate, now->outer_learning_rate},
        {"--outer-momentum", saved->outer_momentum, now->outer_momentum},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].saved != numbers[i].now) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "it was written with %s %.10g, and this job has %.10g",
                             numbers[i].what, numbers[i].saved, numbers[i].now);
        }
    }
    return BASE_OK;
}

rank_training_optimizer rank_training_optimizer_of(const proto_job *job)
{
    const proto_job_train *train = &job->train;
    return (rank_training_optimizer){.steps = train->steps,
                                     .warmup_steps = train->warmup_steps,
                                     .kind = train->optimizer,
                                     .muon_momentum = train->optimizer == PROTO_OPTIMIZER_MUON
                                                          ? proto_job_muon_momentum(job)
                                                          : 0.0,
                                     .schedule = train->schedule,
                                     .learning_rate = train->learning_rate,
                                     .learning_rate_min = train->learning_rate_min,
                                     .beta1 = train->beta1,
                                     .beta2 = train->beta2,
                                     .weight_decay = train->weight_decay,
                                     .clip_norm = train->clip_norm,
                                     .dropout = train->dropout};
}

base_status rank_training_optimizer_check(const rank_training_optimizer *saved,
                                          const rank_training_optimizer *now, base_error *reterr)
{
    return saved->kind == now->kind
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "it was written with --optimizer %s, and this job has %s",
                           proto_optimizer_name((int)saved->kind),
                           proto_optimizer_name((int)now->kind));
}

void rank_training_optimizer_compare(const rank_training_optimizer *saved,
                                     const rank_training_optimizer *now)
{
    const bool declines = now->schedule != PROTO_SCHEDULE_CONSTANT;
    const struct {
        const char *flag;
        bool counts;
        double saved;
        double now;
    } numbers[] = {
        {"--lr", true, saved->learning_rate, now->learning_rate},
        {"--lr-min", declines, saved->learning_rate_min, now->learning_rate_min},
        {"--warmup", true, (double)saved->warmup_steps, (double)now->warmup_steps},
        {"--muon-momentum", true, saved->muon_momentum, now->muon_momentum},
        {"--beta1", true, saved->beta1, now->beta1},
        {"--beta2", true, saved->beta2, now->beta2},
        {"--weight-decay", true, saved->weight_decay, now->weight_decay},
        {"--clip", true, saved->clip_norm, now->clip_norm},
        {"--dropout", true, saved->dropout, now->dropout},
        {"--steps, where the schedule ends,", declines, (double)saved->steps, (double)now->steps},
    };
    if (saved->steps == 0) {
        return;
    }
    if (saved->schedule != now->schedule) {
        base_log(BASE_LOG_WARNING, "--resume: --schedule is %s now, and was %s",
                 proto_schedule_name(now->schedule), proto_schedule_name(saved->schedule));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].counts && numbers[i].saved != numbers[i].now) {
            base_log(BASE_LOG_WARNING, "--resume: %s is %.10g now, and was %.10g", numbers[i].flag,
                     numbers[i].now, numbers[i].saved);
        }
    }
}

/* Of local steps: the moments of each rank, by the names of their files. */
static bool put_of_ranks(json_t *object, const rank_training_state *state)
{
    json_t *files = state->local.steps > 0 ? json_object() : NULL;
    bool made = true;
    for (int i = 0; files != NULL && made && i < 2 * (int)state->local.ranks; i++) {
        char name[TRAINER_MOMENTS_NAME_BYTES];
        rank_training_moments_name(i / 2, i % 2 > 0, name);
        made = json_object_set_new(files, name,
                                   json_string(state->sha256.of_ranks[i / 2][i % 2])) == 0;
    }
    return state->local.steps == 0 || (json_object_set_new(object, RANK_FILES, files) == 0 && made);
}

static json_t *state_json(const rank_training_state *state, const uint32_t *positions)
{
    json_t *object = base_fields_to_json(&fields, state);
    json_t *array = json_array();
    bool made = object != NULL && array != NULL;
    for (int64_t i = 0; made && i < state->course.slots; i++) {
        made = json_array_append_new(array, json_integer(positions[i])) == 0;
    }
    if (!made || !put_of_ranks(object, state) || json_object_set(object, "positions", array) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(array);
    return object;
}

base_status rank_training_state_write(const char *directory, const rank_training_state *state,
                                      const uint32_t *positions, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    rank_training_state written = *state;
    written.version = VERSION;
    base_status status = base_path_join(directory, FILE_NAME, path, reterr);
    if (status == BASE_OK) {
        status = rank_training_files_digest(directory, state, &written.sha256, reterr);
    }
    if (status == BASE_OK) {
        status = base_fields_check(&fields, &written, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    json_t *object = state_json(&written, positions);
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(object);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    status = base_file_write(path, text, strlen(text), reterr);
    free(text);
    return status;
}

/* Takes the array out of the object, which then has only what the table has. */
static base_status take_positions(json_t *object, uint32_t **positions, size_t *count,
                                  base_error *reterr)
{
    json_t *array = json_object_get(object, "positions");
    *count = json_array_size(array);
    if (*count == 0 || *count > SLOTS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "positions must be a list of 1 to %d numbers",
                         (int)SLOTS_MAX);
    }
    *positions = calloc(*count, sizeof **positions);
    if (*positions == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu positions", *count);
    }
    for (size_t i = 0; i < *count; i++) {
        const json_t *one = json_array_get(array, i);
        const json_int_t value = json_integer_value(one);
        if (!json_is_integer(one) || value < 0 || value > UINT32_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID, "a position is none");
        }
        (*positions)[i] = (uint32_t)value;
    }
    (void)json_object_del(object, "positions");
    return BASE_OK;
}

/* Of local steps: takes the digests of each rank's moments. */
static base_status take_of_ranks(const json_t *files, rank_training_state *state,
                                 base_error *reterr)
{
    const int count = state->local.steps > 0 ? 2 * (int)state->local.ranks : 0;
    bool sound = (int)json_object_size(files) == count;
    for (int i = 0; sound && i < count; i++) {
        char name[TRAINER_MOMENTS_NAME_BYTES];
        uint8_t digest[PROTO_DIGEST_BYTES];
        rank_training_moments_name(i / 2, i % 2 > 0, name);
        const char *hex = json_string_value(json_object_get(files, name));
        sound = hex != NULL && proto_digest_parse(hex, digest);
        if (sound) {
            proto_digest_hex(digest, state->sha256.of_ranks[i / 2][i % 2]);
        }
    }
    return sound ? BASE_OK
                 : base_fail(reterr, BASE_ERR_INVALID,
                             "%s has not the two digests of each rank's moments", RANK_FILES);
}

static base_status parse(const void *text, size_t text_bytes, rank_training_state *state,
                         uint32_t **positions, base_error *reterr)
{
    json_error_t flaw;
    size_t count = 0;
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &flaw);
    base_status status = json_is_object(object)
                             ? take_positions(object, positions, &count, reterr)
                             : base_fail(reterr, BASE_ERR_INVALID, "no JSON object");
    json_t *files = json_incref(json_object_get(object, RANK_FILES));
    (void)json_object_del(object, RANK_FILES);
    if (status == BASE_OK) {
        status = base_fields_from_json(&fields, object, state, reterr);
    }
    if (status == BASE_OK) {
        status = take_of_ranks(files, state, reterr);
    }
    json_decref(files);
    if (status == BASE_OK && count != (size_t)state->course.slots) {
        status = base_fail(reterr, BASE_ERR_INVALID, "it has %zu positions for %" PRId64 " slots",
                           count, state->course.slots);
    }
    json_decref(object);
    return status;
}

base_status rank_training_state_read(const char *directory, rank_training_state *state,
                                     uint32_t **positions, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    *positions = NULL;
    *state = (rank_training_state){.version = 0}; /* what is optional may be missing */
    base_status status = base_path_join(directory, FILE_NAME, path, reterr);
    if (status == BASE_OK) {
        status = base_file_read_regular(path, TEXT_BYTES_MAX, &text, &text_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = parse(text, text_bytes, state, positions, reterr);
    free(text);
    if (status != BASE_OK) {
        free(*positions);
        *positions = NULL;
        return base_error_prepend(reterr, status, "%s", path);
    }
    return BASE_OK;
}
