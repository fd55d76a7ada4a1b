#include "proto/job.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum field_kind {
    FIELD_INT,
    FIELD_REAL,
    FIELD_BOOL,
    FIELD_TEXT,   /* free text */
    FIELD_PATH,   /* absolute, or empty */
    FIELD_DIGEST, /* 64 hex digits, or empty */
    FIELD_CHOICE, /* one of `choices` */
} field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    size_t offset;
    size_t size_bytes;   /* of a text, with its final NUL */
    double min;          /* of a number */
    double max;          /* of a number; exclusive where `below` is set */
    bool below;          /* max itself is out of range */
    bool above;          /* min itself is out of range */
    const char *choices; /* "a b c" */
} field;

#define AT(member) .offset = offsetof(proto_job, member)
#define INT_FIELD(member, low, high)                                                               \
    {                                                                                              \
        .key = #member, .kind = FIELD_INT, AT(member), .min = (low), .max = (high)                 \
    }
#define REAL_FIELD(member, low, high)                                                              \
    {                                                                                              \
        .key = #member, .kind = FIELD_REAL, AT(member), .min = (low), .max = (high)                \
    }
#define TEXT_FIELD(member, field_kind)                                                             \
    {                                                                                              \
        .key = #member, .kind = (field_kind), AT(member),                                          \
        .size_bytes = sizeof(((proto_job *)0)->member)                                             \
    }
#define CHOICE_FIELD(member, words)                                                                \
    {                                                                                              \
        .key = #member, .kind = FIELD_CHOICE, AT(member),                                          \
        .size_bytes = sizeof(((proto_job *)0)->member), .choices = (words)                         \
    }

enum {
    TOKENS_PER_MICRO_BATCH_MAX = 1 << 22,
    WEEK_MS = 7 * 24 * 3600 * 1000,
};

static const field fields[] = {
    CHOICE_FIELD(algorithm, "auto ring tree direct recursive_doubling halving_doubling two_level"),
    INT_FIELD(batch, 1, 65536),
    {.key = "beta1", .kind = FIELD_REAL, AT(beta1), .min = 0, .max = 1, .below = true},
    {.key = "beta2", .kind = FIELD_REAL, AT(beta2), .min = 0, .max = 1, .below = true},
    INT_FIELD(bucket_bytes, 1024, 1 << 30),
    TEXT_FIELD(checkpoint, FIELD_PATH),
    TEXT_FIELD(checkpoint_sha256, FIELD_DIGEST),
    REAL_FIELD(clip_norm, 0, 1e9),
    INT_FIELD(context, 2, 65536),
    TEXT_FIELD(data, FIELD_PATH),
    TEXT_FIELD(data_sha256, FIELD_DIGEST),
    {.key = "epsilon", .kind = FIELD_REAL, AT(epsilon), .min = 0, .max = 1, .above = true},
    {.key = "eval", .kind = FIELD_BOOL, AT(eval)},
    INT_FIELD(heads, 1, 1024),
    TEXT_FIELD(heldout, FIELD_PATH),
    TEXT_FIELD(interface, FIELD_TEXT),
    INT_FIELD(join_timeout_ms, 1, WEEK_MS),
    INT_FIELD(layers, 1, 1024),
    REAL_FIELD(learning_rate, 0, 100),
    REAL_FIELD(learning_rate_min, 0, 100),
    CHOICE_FIELD(loss_on, "correction all"),
    INT_FIELD(micro_batches, 1, 4096),
    CHOICE_FIELD(mode, "ddp-cpu generate program gate-check"),
    INT_FIELD(new_tokens_max, 1, 65536),
    TEXT_FIELD(out, FIELD_PATH),
    TEXT_FIELD(prompt, FIELD_TEXT),
    CHOICE_FIELD(schedule, "constant cosine"),
    {.key = "seed", .kind = FIELD_INT, AT(seed), .min = 0, .max = 4503599627370496.0},
    INT_FIELD(steps, 1, 1000000000),
    CHOICE_FIELD(tcp_auth, "mac encrypt off"),
    INT_FIELD(threads_per_rank, 1, 1024),
    INT_FIELD(timeout_ms, 1, WEEK_MS),
    CHOICE_FIELD(timing, "overlapped bracketed"),
    TEXT_FIELD(tokenizer, FIELD_PATH),
    CHOICE_FIELD(transport, "auto shm tcp zmq"),
    INT_FIELD(vocab_size, 2, 1 << 20),
    INT_FIELD(warmup_steps, 0, 1000000000),
    REAL_FIELD(weight_decay, 0, 100),
    INT_FIELD(width, 1, 65536),
    INT_FIELD(world_size, 1, BASE_RANKS_MAX),
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static void *member(proto_job *job, const field *entry)
{
    return (char *)job + entry->offset;
}

static const void *const_member(const proto_job *job, const field *entry)
{
    return (const char *)job + entry->offset;
}

bool proto_mode_is_cloud(const char *mode)
{
    static const char suffix[] = "-nccl";
    const size_t length = strlen(mode);
    return strcmp(mode, "gate-check") == 0 ||
           (length >= sizeof suffix - 1 &&
            strcmp(mode + length - (sizeof suffix - 1), suffix) == 0);
}

void proto_job_defaults(proto_job *job)
{
    *job = (proto_job){
        .mode = "ddp-cpu",
        .world_size = 2,
        .seed = 35000,
        .vocab_size = 512,
        .width = 128,
        .layers = 2,
        .heads = 4,
        .context = 64,
        .loss_on = "correction",
        .steps = 100,
        .batch = 16,
        .micro_batches = 1,
        .learning_rate = 3e-4,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .weight_decay = 0.01,
        .clip_norm = 1.0,
        .schedule = "constant",
        .transport = "auto",
        .tcp_auth = "mac",
        .algorithm = "auto",
        .timing = "overlapped",
        .bucket_bytes = 512 * 1024,
        .timeout_ms = 300 * 1000,
        .join_timeout_ms = 30 * 1000,
        .threads_per_rank = 1,
        .new_tokens_max = 64,
    };
}

static bool is_choice(const char *choices, const char *word)
{
    const size_t word_length = strlen(word);
    for (const char *at = choices; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        if (length == word_length && memcmp(at, word, length) == 0) {
            return true;
        }
        at += length;
        at += *at == ' ' ? 1 : 0;
    }
    return false;
}

static base_status check_number(const field *entry, double value, base_error *reterr)
{
    const bool low = entry->above ? !(value > entry->min) : !(value >= entry->min);
    const bool high = entry->below ? !(value < entry->max) : !(value <= entry->max);
    if (low || high) { /* NaN is both */
        return base_fail(reterr, BASE_ERR_INVALID, "%.17g: must be %s %.17g and %s %.17g", value,
                         entry->above ? "above" : "at least", entry->min,
                         entry->below ? "below" : "at most", entry->max);
    }
    return BASE_OK;
}

static base_status check_text(const field *entry, const char *text, base_error *reterr)
{
    if (memchr(text, '\0', entry->size_bytes) == NULL) {
        return base_fail(reterr, BASE_ERR_LIMIT, "longer than %zu bytes", entry->size_bytes - 1);
    }
    if (entry->kind == FIELD_CHOICE && !is_choice(entry->choices, text)) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be one of: %s", text,
                         entry->choices);
    }
    if (entry->kind == FIELD_PATH && text[0] != '\0' && text[0] != '/') {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be an absolute path", text);
    }
    const size_t digits = strspn(text, "0123456789abcdef");
    if (entry->kind == FIELD_DIGEST && text[0] != '\0' &&
        (digits != entry->size_bytes - 1 || text[digits] != '\0')) {
        return base_fail(reterr, BASE_ERR_INVALID, "must be %zu hex digits, or empty",
                         entry->size_bytes - 1);
    }
    return BASE_OK;
}

static base_status check_field(const proto_job *job, const field *entry, base_error *reterr)
{
    switch (entry->kind) {
    case FIELD_INT:
        return check_number(entry, (double)*(const int64_t *)const_member(job, entry), reterr);
    case FIELD_REAL:
        return check_number(entry, *(const double *)const_member(job, entry), reterr);
    case FIELD_BOOL:
        return BASE_OK;
    default:
        return check_text(entry, const_member(job, entry), reterr);
    }
}

base_status proto_job_check(const proto_job *job, base_error *reterr)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        const base_status status = check_field(job, &fields[i], reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s", fields[i].key);
        }
    }
    if (job->width % job->heads != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "width %" PRId64 " is not a multiple of heads %" PRId64, job->width,
                         job->heads);
    }
    if (job->batch * job->context > TOKENS_PER_MICRO_BATCH_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "batch %" PRId64 " × context %" PRId64 " is more than %d tokens",
                         job->batch, job->context, TOKENS_PER_MICRO_BATCH_MAX);
    }
    if (job->learning_rate_min > job->learning_rate) {
        return base_fail(reterr, BASE_ERR_INVALID, "learning_rate_min %g is above learning_rate %g",
                         job->learning_rate_min, job->learning_rate);
    }
    return BASE_OK;
}

static json_t *field_to_json(const proto_job *job, const field *entry)
{
    const void *value = const_member(job, entry);
    switch (entry->kind) {
    case FIELD_INT:
        return json_integer(*(const int64_t *)value);
    case FIELD_REAL:
        return json_real(*(const double *)value);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)value);
    default:
        return json_string(value); /* NULL unless it is UTF-8 */
    }
}

base_status proto_job_write(const proto_job *job, char **text, size_t *text_bytes,
                            base_error *reterr)
{
    base_status status = proto_job_check(job, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *object = json_object();
    for (int i = 0; i < FIELD_COUNT; i++) {
        json_t *value = field_to_json(job, &fields[i]);
        if (value == NULL) {
            json_decref(object);
            return base_fail(reterr, BASE_ERR_INVALID, "%s is not UTF-8", fields[i].key);
        }
        if (json_object_set_new(object, fields[i].key, value) != 0) {
            json_decref(object);
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for JOB.json");
        }
    }
    char *dump = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(object);
    if (dump == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for JOB.json");
    }
    *text = dump;
    *text_bytes = strlen(dump);
    if (*text_bytes > PROTO_JOB_BYTES_MAX) {
        free(dump);
        return base_fail(reterr, BASE_ERR_LIMIT, "JOB.json would have more than %d bytes",
                         PROTO_JOB_BYTES_MAX);
    }
    return BASE_OK;
}

static base_status wrong_type(const field *entry, const char *wanted, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "%s must be %s", entry->key, wanted);
}

static base_status field_from_json(proto_job *job, const field *entry, const json_t *value,
                                   base_error *reterr)
{
    void *into = member(job, entry);
    switch (entry->kind) {
    case FIELD_INT:
        if (!json_is_integer(value)) {
            return wrong_type(entry, "a whole number", reterr);
        }
        *(int64_t *)into = json_integer_value(value);
        return BASE_OK;
    case FIELD_REAL:
        if (!json_is_real(value)) {
            return wrong_type(entry, "a number with a decimal point", reterr);
        }
        *(double *)into = json_real_value(value);
        return BASE_OK;
    case FIELD_BOOL:
        if (!json_is_boolean(value)) {
            return wrong_type(entry, "true or false", reterr);
        }
        *(bool *)into = json_is_true(value);
        return BASE_OK;
    default:
        if (!json_is_string(value)) {
            return wrong_type(entry, "a string", reterr);
        }
        if (json_string_length(value) >= entry->size_bytes) {
            return base_fail(reterr, BASE_ERR_LIMIT, "%s is longer than %zu bytes", entry->key,
                             entry->size_bytes - 1);
        }
        memcpy(into, json_string_value(value), json_string_length(value) + 1);
        return BASE_OK;
    }
}

static const field *find_field(const char *key)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static base_status set_from_text(proto_job *job, const field *entry, const char *value,
                                 base_error *reterr)
{
    void *into = member(job, entry);
    char *end = NULL;
    errno = 0;
    switch (entry->kind) {
    case FIELD_INT:
        *(int64_t *)into = strtoll(value, &end, 10);
        if (end == value || *end != '\0' || errno != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "'%s': must be a whole number from %.0f to %.0f", value, entry->min,
                             entry->max);
        }
        return BASE_OK;
    case FIELD_REAL:
        *(double *)into = strtod(value, &end);
        if (end == value || *end != '\0' || !isfinite(*(double *)into)) {
            return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be a number from %g to %g",
                             value, entry->min, entry->max);
        }
        return BASE_OK;
    case FIELD_BOOL:
        *(bool *)into = strcmp(value, "true") == 0;
        if (!*(bool *)into && strcmp(value, "false") != 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be true or false", value);
        }
        return BASE_OK;
    default:
        if (strlen(value) >= entry->size_bytes) {
            return base_fail(reterr, BASE_ERR_LIMIT, "longer than %zu bytes",
                             entry->size_bytes - 1);
        }
        memcpy(into, value, strlen(value) + 1);
        return BASE_OK;
    }
}

base_status proto_job_set(proto_job *job, const char *key, const char *value, base_error *reterr)
{
    const field *entry = find_field(key);
    if (entry == NULL) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "no field \"%s\" in a job", key);
    }
    const base_status status = set_from_text(job, entry, value, reterr);
    return status == BASE_OK ? check_field(job, entry, reterr) : status;
}

static base_status parse_object(json_t *object, proto_job *job, base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(object, key, value)
    {
        if (find_field(key) == NULL) {
            return base_fail(reterr, BASE_ERR_INVALID, "unknown key \"%s\"", key);
        }
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        value = json_object_get(object, fields[i].key);
        if (value == NULL) {
            return base_fail(reterr, BASE_ERR_INVALID, "key \"%s\" is missing", fields[i].key);
        }
        const base_status status = field_from_json(job, &fields[i], value, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return proto_job_check(job, reterr);
}

base_status proto_job_parse(const void *text, size_t text_bytes, proto_job *job, base_error *reterr)
{
    json_error_t json_error;
    proto_job parsed = {0};
    if (text_bytes > PROTO_JOB_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "JOB.json has more than %d bytes",
                         PROTO_JOB_BYTES_MAX);
    }
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (object == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "JOB.json: line %d: %s", json_error.line,
                         json_error.text);
    }
    base_status status = json_is_object(object)
                             ? parse_object(object, &parsed, reterr)
                             : base_fail(reterr, BASE_ERR_INVALID, "not a JSON object");
    json_decref(object);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "JOB.json");
    }
    *job = parsed;
    return BASE_OK;
}
