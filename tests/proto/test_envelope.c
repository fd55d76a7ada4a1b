/* proto/envelope.h: which side may send what, bounded sizes and memory, and tamed texts. */
#include "proto/envelope.h"

#include <budget.pb-c.h>
#include <control.pb-c.h>
#include <math.h>
#include <string.h>

#include "proto/body.h"
#include "proto/digest.h"
#include "proto/lease.h"
#include "proto/limits.h"
#include "support.h"

enum { ARENA_BYTES = 1024 * 1024 };

static base_status unpack_why(const Ringfence__Control__Envelope *sent, proto_side from,
                              base_error *why)
{
    static uint8_t packed[PROTO_LAUNCHER_MESSAGE_BYTES_MAX];
    Ringfence__Control__Envelope *got = NULL;
    base_error error;
    proto_arena arena;
    assert_true(ringfence__control__envelope__get_packed_size(sent) <= sizeof packed);
    const size_t size_bytes = ringfence__control__envelope__pack(sent, packed);
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, &error), &error);
    const proto_envelope_source source = {.from = from, .world_size = 2, .arena = &arena};
    const base_status status = proto_envelope_unpack(packed, size_bytes, &source, &got, why);
    proto_arena_fini(&arena);
    return status;
}

static base_status unpack(const Ringfence__Control__Envelope *sent, proto_side from)
{
    return unpack_why(sent, from, NULL);
}

static void each_side_may_send_only_its_own_messages(void **state)
{
    (void)state;
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Goodbye goodbye = RINGFENCE__CONTROL__GOODBYE__INIT;
    Ringfence__Control__Pause pause = RINGFENCE__CONTROL__PAUSE__INIT;
    Ringfence__Control__Step step = RINGFENCE__CONTROL__STEP__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* no body */

    proto_set_body(&envelope.base, &goodbye.base);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);

    proto_set_body(&envelope.base, &pause.base);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);

    proto_set_body(&envelope.base, &step.base);
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
    envelope.version = PROTO_CONTROL_VERSION;
    int64_t *const times[] = {&step.step_ns, &step.stage_span_ns, &step.tensor_ns};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        *times[i] = -1;
        assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
        *times[i] = 0;
        assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    }
}

/* Before anything else is looked at: this body breaks the protocol, too. */
static void another_version_is_named(void **state)
{
    static const struct {
        unsigned version;
        proto_side from;
        const char *message;
    } cases[] = {
        {3, PROTO_SIDE_RANK,
         "the rank speaks version 3 of the protocol, and the launcher version "
         "2: update the launcher"},
        {1, PROTO_SIDE_RANK,
         "the rank speaks version 1 of the protocol, and the launcher version "
         "2: update the rank"},
        {3, PROTO_SIDE_LAUNCHER,
         "the launcher speaks version 3 of the protocol, and the rank "
         "version 2: update the rank"},
        {3, PROTO_SIDE_AGENT,
         "the agent speaks version 3 of the protocol, and the head version 2: "
         "update the head"},
        {1, PROTO_SIDE_HEAD,
         "the head speaks version 1 of the protocol, and the agent version 2: "
         "update the head"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {0};
        Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
        envelope.version = cases[i].version;
        assert_status(unpack_why(&envelope, cases[i].from, &error), BASE_ERR_UNSUPPORTED);
        assert_string_equal(error.message, cases[i].message);
    }
}

/* The digests of an agent's flags are whole, and no more than a job may have. */
static void enrolments_fit(void **state)
{
    (void)state;
    static uint8_t digests[(PROTO_FLAG_DIGESTS_MAX + 1) * PROTO_FLAG_DIGEST_BYTES];
    char text[] = "x";
    Ringfence__Control__Enroll enroll = RINGFENCE__CONTROL__ENROLL__INIT;
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &enroll.base);
    enroll.node = 1;
    enroll.pid = 1;
    enroll.run_id = text;
    enroll.build = text;
    enroll.hostname = text;
    enroll.boot_id = text;
    enroll.head_address = text;
    enroll.flag_digests.data = digests;
    assert_status(unpack(&envelope, PROTO_SIDE_AGENT), BASE_OK);
    enroll.flag_digests.len = (size_t)PROTO_FLAG_DIGESTS_MAX * PROTO_FLAG_DIGEST_BYTES;
    assert_status(unpack(&envelope, PROTO_SIDE_AGENT), BASE_OK);
    enroll.flag_digests.len--;
    assert_status(unpack(&envelope, PROTO_SIDE_AGENT), BASE_ERR_INVALID);
    enroll.flag_digests.len = sizeof digests;
    assert_status(unpack(&envelope, PROTO_SIDE_AGENT), BASE_ERR_INVALID);
}

/* Files go between head and agent; their names lead nowhere else. */
static void files_fit(void **state)
{
    (void)state;
    static uint8_t bytes[PROTO_DIGEST_BYTES];
    static Ringfence__Control__File *list[PROTO_FILES_MAX + 1];
    static const char *const bad[] = {"..", ".", "a/b", "/", "/etc/passwd"};
    char key[] = "data.train";
    char name[] = "model-00001-of-00002.safetensors";
    char job[] = "{}";
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Assign assign = RINGFENCE__CONTROL__ASSIGN__INIT;
    Ringfence__Control__File file = RINGFENCE__CONTROL__FILE__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &assign.base);
    assign.world_size = assign.ranks = 1;
    assign.host_timeout_ms = 1;
    assign.job = (ProtobufCBinaryData){sizeof job - 1, (uint8_t *)job};
    for (size_t i = 0; i <= PROTO_FILES_MAX; i++) {
        list[i] = &file;
    }
    assign.files = list;
    assign.n_files = PROTO_FILES_MAX;
    file.key = key;
    file.sha256 = (ProtobufCBinaryData){sizeof bytes, bytes};
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_AGENT), BASE_ERR_INVALID);
    assign.n_files++;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
    assign.n_files = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        file.name = (char *)(uintptr_t)bad[i];
        assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
    }
    file.name = name;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_OK);
    file.sha256.len--;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
    file.sha256.len++;
    file.size_bytes = UINT64_MAX;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
}

static void chunks_fit(void **state)
{
    (void)state;
    static uint8_t bytes[PROTO_CHUNK_BYTES_MAX + 1];
    static const proto_side sides[] = {PROTO_SIDE_HEAD, PROTO_SIDE_AGENT};
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Fetch fetch = RINGFENCE__CONTROL__FETCH__INIT;
    Ringfence__Control__Chunk chunk = RINGFENCE__CONTROL__CHUNK__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        proto_set_body(&envelope.base, &fetch.base);
        fetch.offset = INT64_MAX;
        assert_status(unpack(&envelope, sides[i]), BASE_OK);
        fetch.offset++;
        assert_status(unpack(&envelope, sides[i]), BASE_ERR_INVALID);
        proto_set_body(&envelope.base, &chunk.base);
        chunk.offset = 0;
        chunk.data = (ProtobufCBinaryData){0, bytes};
        assert_status(unpack(&envelope, sides[i]), BASE_ERR_INVALID);
        chunk.data.len = PROTO_CHUNK_BYTES_MAX;
        assert_status(unpack(&envelope, sides[i]), BASE_OK);
        chunk.data.len++;
        assert_status(unpack(&envelope, sides[i]), BASE_ERR_INVALID);
        chunk.data.len = 1;
        chunk.offset = INT64_MAX;
        assert_status(unpack(&envelope, sides[i]), BASE_ERR_INVALID);
    }
    chunk.offset = 0;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
}

/* What a rank gets at its gate comes from the head alone, and fits a lease. */
static void leases_fit(void **state)
{
    (void)state;
    static char text[PROTO_LEASE_TOKEN_BYTES + 1];
    char token[] = "v4.public.token";
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Lease lease = RINGFENCE__CONTROL__LEASE__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &lease.base);
    lease.attempt = 1;
    lease.token = token;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID); /* no receipt */
    lease.receipt = text;
    memset(text, 'a', PROTO_LEASE_TOKEN_BYTES - 1);
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_AGENT), BASE_ERR_INVALID);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
    text[PROTO_LEASE_TOKEN_BYTES - 1] = 'a'; /* no room for a NUL */
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
    lease.token = text;
    lease.receipt = token;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
    lease.token = token;
    lease.attempt = 0;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
    lease.attempt = 1;
    lease.rank = BASE_RANKS_MAX;
    assert_status(unpack(&envelope, PROTO_SIDE_HEAD), BASE_ERR_INVALID);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    static uint8_t bytes[PROTO_EXCHANGE_BYTES_MAX + 1];
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Exchange exchange = RINGFENCE__CONTROL__EXCHANGE__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &exchange.base);
    exchange.part.data = bytes;
    exchange.part.len = sizeof bytes - 1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    exchange.part.len = sizeof bytes;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);

    exchange.part.len = 0; /* would be unpacked as NULL */
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);

    /* parts of different sizes, empty ones, and too few of them */
    Ringfence__Control__Exchanged exchanged = RINGFENCE__CONTROL__EXCHANGED__INIT;
    ProtobufCBinaryData parts[2] = {{4, bytes}, {5, bytes}};
    proto_set_body(&envelope.base, &exchanged.base);
    exchanged.parts = parts;
    exchanged.n_parts = 2;
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
    parts[1].len = 4;
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_OK);
    parts[0].len = parts[1].len = 0;
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
    parts[0].len = parts[1].len = 4;
    exchanged.n_parts = 1;
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
}

static void a_small_message_cannot_take_much_memory(void **state)
{
    (void)state;
    /* a Finished with 8000 empty uses of memory is 16 KB on the wire and half a megabyte in memory */
    static uint8_t packed[5 + 16000];
    const uint8_t head[] = {0x08, 0x02, 0x52, 0x80, 0x7d}; /* version 2; Finished of 16000 bytes */
    base_error error;
    proto_arena arena;
    Ringfence__Control__Envelope *got = NULL;
    memcpy(packed, head, sizeof head);
    for (size_t i = sizeof head; i + 1 < sizeof packed; i += 2) {
        packed[i] = 0x5a;
        packed[i + 1] = 0;
    }
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, &error), &error);
    const proto_envelope_source source = {
        .from = PROTO_SIDE_RANK, .world_size = 2, .arena = &arena};
    assert_status(proto_envelope_unpack(packed, sizeof packed, &source, &got, &error),
                  BASE_ERR_INVALID);
    proto_arena_fini(&arena);
}

static void log_probabilities_are_whole(void **state)
{
    (void)state;
    static int32_t ids[PROTO_EVENT_LOGPROBS_MAX + 2];
    static double values[PROTO_EVENT_LOGPROBS_MAX + 2];
    static uint8_t text[PROTO_TOKEN_BYTES_MAX + 1];
    static ProtobufCBinaryData bytes[PROTO_EVENT_LOGPROBS_MAX + 2];
    static uint32_t text_bytes[PROTO_EVENT_TOKENS_MAX];
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Tokens tokens = RINGFENCE__CONTROL__TOKENS__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &tokens.base);
    tokens.id = 1;
    tokens.token_ids = ids;
    tokens.logprob_ids = ids;
    tokens.logprobs = values;
    tokens.logprob_bytes = bytes;
    tokens.text_bytes = text_bytes;
    tokens.n_token_ids = tokens.n_text_bytes = 2;
    tokens.n_logprob_ids = tokens.n_logprobs = tokens.n_logprob_bytes = 2 * PROTO_LOGPROBS_MAX;
    ids[1] = -1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* it was drawn */
    ids[1] = 5;
    ids[PROTO_LOGPROBS_MAX] = 5;
    ids[PROTO_LOGPROBS_MAX + 1] = -1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    ids[PROTO_LOGPROBS_MAX] = 6;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* another was drawn */
    ids[PROTO_LOGPROBS_MAX] = 5;
    values[3] = 0.5;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    values[3] = (double)NAN;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    values[3] = -0.5;
    bytes[3] = (ProtobufCBinaryData){PROTO_TOKEN_BYTES_MAX, text};
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    bytes[3].len++;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    bytes[3].len = 0;
    tokens.cached_tokens = PROTO_CONTEXT_MAX; /* more than a prompt has */
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    tokens.cached_tokens--;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    char four[] = "four";
    tokens.text = four;
    text_bytes[0] = 1;
    text_bytes[1] = 3;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    text_bytes[1] = 4; /* more than there is */
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    text_bytes[0] = UINT32_MAX;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    memset(text_bytes, 0, sizeof text_bytes);
    size_t *counts[] = {&tokens.n_logprob_ids, &tokens.n_logprobs, &tokens.n_logprob_bytes,
                        &tokens.n_text_bytes};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        --*counts[i];
        assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
        ++*counts[i];
    }
    tokens.n_logprob_ids = tokens.n_logprobs = tokens.n_logprob_bytes = 2 * PROTO_LOGPROBS_MAX + 2;
    ids[PROTO_LOGPROBS_MAX + 1] = 5;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* too many of a token */
    memset(ids, 0, sizeof ids);
    tokens.n_token_ids = tokens.n_text_bytes = PROTO_EVENT_TOKENS_MAX;
    tokens.n_logprob_ids = tokens.n_logprobs = tokens.n_logprob_bytes = PROTO_EVENT_LOGPROBS_MAX;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    tokens.n_token_ids = tokens.n_text_bytes = PROTO_EVENT_LOGPROBS_MAX / 3 + 1;
    tokens.n_logprob_ids = tokens.n_logprobs = tokens.n_logprob_bytes = 3 * tokens.n_token_ids;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* too many in all */
}

static void requests_and_events_are_bounded(void **state)
{
    (void)state;
    static int32_t ids[PROTO_EVENT_TOKENS_MAX + 1];
    static uint32_t text_bytes[PROTO_EVENT_TOKENS_MAX + 1];
    static char text[PROTO_EVENT_TEXT_BYTES_MAX + 2];
    static char prompt[PROTO_PROMPT_BYTES_MAX + 2];
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Request request = RINGFENCE__CONTROL__REQUEST__INIT;
    Ringfence__Control__Tokens tokens = RINGFENCE__CONTROL__TOKENS__INIT;
    Ringfence__Control__Answered answered = RINGFENCE__CONTROL__ANSWERED__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &request.base);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID); /* no id */
    request.id = 1;
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    memset(prompt, 'a', sizeof prompt - 1);
    request.prompt = prompt;
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
    prompt[PROTO_PROMPT_BYTES_MAX] = '\0';
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_OK);
    memset(text, 'a', sizeof text - 1);

    proto_set_body(&envelope.base, &tokens.base);
    tokens.id = 1;
    tokens.token_ids = ids;
    tokens.text_bytes = text_bytes;
    tokens.n_token_ids = tokens.n_text_bytes = PROTO_EVENT_TOKENS_MAX;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    assert_status(unpack(&envelope, PROTO_SIDE_LAUNCHER), BASE_ERR_INVALID);
    tokens.n_token_ids = ++tokens.n_text_bytes;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    tokens.n_token_ids = tokens.n_text_bytes = 1;
    ids[0] = -1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    tokens.n_token_ids = 0;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* of no token */
    tokens.n_text_bytes = 0;
    tokens.text = (char[]){"a\r\x1b"};
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    tokens.text = text;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);

    proto_set_body(&envelope.base, &answered.base);
    answered.id = 1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID); /* no reason */
    answered.finish_reason = RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_STOP;
    answered.completion_tokens = 2;
    answered.drawn = 3;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    answered.drawn = 1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    answered.drawn = 2;
    answered.drafted = 2;
    answered.accepted = 2;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_OK);
    answered.drafted = 1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
    answered.drafted = 2;
    answered.ttft_ns = -1;
    assert_status(unpack(&envelope, PROTO_SIDE_RANK), BASE_ERR_INVALID);
}

static void texts_do_not_drive_the_terminal(void **state)
{
    (void)state;
    char text[] = "a\x1b[2Jb\tc\nd\x7f é \xc2\x9b \xff \xe2\x82";
    proto_text_tame(text);
    assert_string_equal(text, "a?[2Jb\tc\nd? é ?? ? ??");
}

static void loads_are_of_whole_layers(void **state)
{
    (void)state;
    static float loads[PROTO_LOADS_MAX + 4];
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    Ringfence__Control__Experts experts = RINGFENCE__CONTROL__EXPERTS__INIT;
    const struct {
        uint32_t count;
        size_t loads;
        base_status status;
    } cases[] = {
        {4, 8, BASE_OK},
        {4, 0, BASE_OK},
        {4, PROTO_LOADS_MAX, BASE_OK},
        {0, 0, BASE_ERR_INVALID},
        {4, 7, BASE_ERR_INVALID},
        {4, PROTO_LOADS_MAX + 4, BASE_ERR_INVALID},
        {PROTO_EXPERTS_MAX + 1, 0, BASE_ERR_INVALID},
    };
    envelope.version = PROTO_CONTROL_VERSION;
    finished.experts = &experts;
    experts.loads = loads;
    proto_set_body(&envelope.base, &finished.base);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        experts.count = cases[i].count;
        experts.n_loads = cases[i].loads;
        assert_status(unpack(&envelope, PROTO_SIDE_RANK), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(each_side_may_send_only_its_own_messages),
        cmocka_unit_test(enrolments_fit),
        cmocka_unit_test(files_fit),
        cmocka_unit_test(chunks_fit),
        cmocka_unit_test(leases_fit),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(a_small_message_cannot_take_much_memory),
        cmocka_unit_test(requests_and_events_are_bounded),
        cmocka_unit_test(log_probabilities_are_whole),
        cmocka_unit_test(texts_do_not_drive_the_terminal),
        cmocka_unit_test(loads_are_of_whole_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
