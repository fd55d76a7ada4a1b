/* Takes and compares the digests of a job's flags. Called by cli/options_hosts.c and gather.c. */
#include "job/flag_digests.h"

#include <string.h>

#include "base/assert.h"
#include "proto/digest.h"

enum { TEXT_BYTES_MAX = 512 * 1024 };

/* Texts that have one digest between them. Each ends with a NUL. */
typedef struct flag_text {
    char *bytes;
    size_t used_bytes;
    bool overflow;
} flag_text;

static void add_text(flag_text *text, const char *value)
{
    const size_t length = strlen(value) + 1;
    if (text->used_bytes + length > TEXT_BYTES_MAX) {
        text->overflow = true;
        return;
    }
    memcpy(text->bytes + text->used_bytes, value, length);
    text->used_bytes += length;
}

static void take_digest(const void *data, size_t bytes, uint8_t digest[PROTO_FLAG_DIGEST_BYTES])
{
    uint8_t whole[PROTO_DIGEST_BYTES];
    proto_blake2b256(data, bytes, whole);
    memcpy(digest, whole, PROTO_FLAG_DIGEST_BYTES);
}

/* Adds the digest of the texts, which are none then. */
static void add_digest(launch_flag_digests *digests, flag_text *text)
{
    BASE_ASSERT(digests->count < PROTO_FLAG_DIGESTS_MAX);
    take_digest(text->bytes, text->used_bytes, digests->bytes[digests->count++]);
    text->used_bytes = 0;
}

static bool is_each_hosts(const base_field *field)
{
    return (field->marks & PROTO_FIELD_EACH_HOST) != 0;
}

static void digest_field(const base_field *field, const proto_job *job,
                         uint8_t digest[PROTO_FLAG_DIGEST_BYTES])
{
    char value[BASE_PATH_BYTES];
    const char *at = value;
    base_field_format(field, job, value, sizeof value);
    if (field->kind == BASE_FIELD_PATH) {
        const char *slash = strrchr(value, '/'); /* the working directory may be another */
        at = slash != NULL ? slash + 1 : value;
    }
    take_digest(at, strlen(at) + 1, digest);
}

base_status launch_flag_digests_take(launch_options *options, base_error *reterr)
{
    static char bytes[TEXT_BYTES_MAX];
    flag_text text = {.bytes = bytes};
    launch_flag_digests *digests = &options->hosts.flag_digests;
    digests->count = 0;
    for (int i = 0; i < proto_job_fields.count; i++) {
        const base_field *field = &proto_job_fields.rows[i];
        if (!is_each_hosts(field)) {
            BASE_ASSERT(digests->count < PROTO_FLAG_DIGESTS_MAX);
            digest_field(field, &options->job, digests->bytes[digests->count++]);
        }
    }
    for (int i = 0; i < options->prompt_count; i++) {
        add_text(&text, options->prompts[i]);
    }
    add_digest(digests, &text);
    for (char *const *argument = options->program; argument != NULL && *argument != NULL;
         argument++) {
        add_text(&text, *argument);
    }
    add_digest(digests, &text);
    return text.overflow ? base_fail(reterr, BASE_ERR_LIMIT, "a command line of more than %d bytes",
                                     TEXT_BYTES_MAX)
                         : BASE_OK;
}

/* The field with this digest; NULL: it is not of a field. *behind: digests behind those of fields. */
static const base_field *find_field(int index, int *behind)
{
    for (int i = 0; i < proto_job_fields.count; i++) {
        const base_field *field = &proto_job_fields.rows[i];
        if (!is_each_hosts(field) && index-- == 0) {
            return field;
        }
    }
    *behind = index;
    return NULL;
}

static bool same(const uint8_t *one, const uint8_t *other)
{
    return memcmp(one, other, PROTO_FLAG_DIGEST_BYTES) == 0;
}

/* A flag that differs. */
typedef struct difference {
    const base_field *field; /* NULL: not a field of the job */
    int behind;              /* then, how many digests it stands behind those of fields */
    bool head_lacks;         /* the head has nothing for it */
    bool agent_lacks;        /* the agent has the default */
} difference;

static difference assess(const uint8_t *head, const uint8_t *agent, int index)
{
    static proto_job defaults;
    uint8_t digest[PROTO_FLAG_DIGEST_BYTES];
    difference found = {.behind = 0};
    found.field = find_field(index, &found.behind);
    if (found.field != NULL) {
        proto_job_defaults(&defaults);
        digest_field(found.field, &defaults, digest);
        found.agent_lacks = same(agent, digest);
        take_digest("", 1, digest);
        found.head_lacks = same(head, digest);
    }
    return found;
}

static base_status refuse(const difference *found, const proto_job *job, base_error *reterr)
{
    static const char remedy[] = "give it the same flags of the job, or none";
    char value[128];
    if (found->field == NULL && found->behind > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the program behind -- differs from the head's: it must be the same on "
                         "each host");
    }
    if (found->field == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "--prompt differs from the head's: %s", remedy);
    }
    const bool option = found->field->option != NULL;
    const char *name = option ? found->field->option : found->field->key;
    const char *dashes = option ? "--" : "";
    base_field_format(found->field, job, value, sizeof value);
    if (found->agent_lacks) {
        return base_fail(reterr, BASE_ERR_INVALID, "the head has %s%s %s, and it has not: %s",
                         dashes, name, value, remedy);
    }
    return found->head_lacks ? base_fail(reterr, BASE_ERR_INVALID, "the head has no %s%s: %s",
                                         dashes, name, remedy)
                             : base_fail(reterr, BASE_ERR_INVALID,
                                         "%s%s differs from the head's, which is %s: %s", dashes,
                                         name, value, remedy);
}

base_status launch_flag_digests_compare(const launch_flag_digests *head, const proto_job *job,
                                        const void *agents, size_t agents_bytes, base_error *reterr)
{
    difference named = {.agent_lacks = true};
    bool differs = false;
    const int program = head->count - 1;
    if (agents_bytes == PROTO_FLAG_DIGEST_BYTES) {
        named = assess(head->bytes[program], agents, program);
        return same(head->bytes[program], agents) ? BASE_OK : refuse(&named, job, reterr);
    }
    if (agents_bytes != (size_t)head->count * PROTO_FLAG_DIGEST_BYTES) {
        return base_fail(reterr, BASE_ERR_INVALID, "it has digests of %zu flags, the head of %d",
                         agents_bytes / PROTO_FLAG_DIGEST_BYTES, head->count);
    }
    /* a flag that the agent was given comes before those that it lacks */
    for (int i = 0; i < head->count && (!differs || named.agent_lacks); i++) {
        const uint8_t *agent = (const uint8_t *)agents + (size_t)i * PROTO_FLAG_DIGEST_BYTES;
        if (same(head->bytes[i], agent)) {
            continue;
        }
        const difference found = assess(head->bytes[i], agent, i);
        if (!differs || !found.agent_lacks) {
            named = found;
        }
        differs = true;
    }
    return differs ? refuse(&named, job, reterr) : BASE_OK;
}
