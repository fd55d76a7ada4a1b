#include "proto/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static char *default_text(void)
{
    base_error error;
    proto_job job;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    assert_ok(proto_job_write(&job, &text, &text_bytes, &error), &error);
    assert_int_equal(text_bytes, strlen(text));
    return text;
}

/* The default text with the first `from` replaced by `to`, parsed. */
static base_status parse_changed(const char *from, const char *to, base_error *error)
{
    char changed[8192];
    proto_job job;
    char *text = default_text();
    char *at = strstr(text, from);
    assert_non_null(at);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
                   at + strlen(from));
    free(text);
    return proto_job_parse(changed, strlen(changed), &job, error);
}

static void a_job_comes_back(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job parsed;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    job.learning_rate = 0.1; /* not exact in binary */
    job.eval = true;
    job.seed = INT64_C(4503599627370496);
    (void)snprintf(job.data, sizeof job.data, "/data/é \"x\".jsonl");
    (void)snprintf(job.prompt, sizeof job.prompt, "one\ntwo");
    assert_ok(proto_job_write(&job, &text, &text_bytes, &error), &error);
    assert_ok(proto_job_parse(text, text_bytes, &parsed, &error), &error);

    char *again = NULL;
    assert_true(parsed.learning_rate == 0.1);
    assert_true(parsed.eval);
    assert_true(parsed.seed == job.seed);
    assert_string_equal(parsed.data, job.data);
    assert_string_equal(parsed.prompt, "one\ntwo");
    assert_ok(proto_job_write(&parsed, &again, &text_bytes, &error), &error);
    assert_string_equal(again, text);
    free(again);
    free(text);
}

static void the_text_is_canonical(void **state)
{
    (void)state;
    char *text = default_text();
    assert_null(strchr(text, ' '));
    assert_null(strchr(text, '\n'));
    assert_true(strncmp(text, "{\"algorithm\":\"auto\",\"batch\":16,", 31) == 0);
    assert_non_null(strstr(text, "\"world_size\":2}"));
    free(text);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
        const char *named;
    } cases[] = {
        {"\"batch\":16", "\"batch\":0", "batch"},
        {"\"batch\":16", "\"batch\":\"16\"", "batch"},
        {"\"batch\":16", "\"batch\":16.5", "batch"},
        {"\"batch\":16", "\"batch\":65536,\"batch\":1", "batch"},
        {"\"batch\":16,", "", "\"batch\" is missing"},
        {"\"batch\":16", "\"batches\":16", "batches"},
        {"\"beta1\":0.9", "\"beta1\":1.0", "beta1"},
        {"\"epsilon\":", "\"epsilon\":0.0,\"x\":", "x"},
        {"\"heads\":4", "\"heads\":3", "multiple of heads 3"},
        {"\"context\":64", "\"context\":65536,\"a\":1", "a"},
        {"\"mode\":\"ddp-cpu\"", "\"mode\":\"magic\"", "'magic'"},
        {"\"mode\":\"ddp-cpu\"", "\"mode\":\"ddp\"", "'ddp'"},
        {"\"out\":\"\"", "\"out\":\"relative\"", "absolute"},
        {"\"eval\":false", "\"eval\":0", "eval"},
        {"\"steps\":100", "\"steps\":9223372036854775808", "JOB.json"},
        {"\"world_size\":2", "\"world_size\":4097", "world_size"},
        {"}", "", "JOB.json"},
        {"}", "} x", "JOB.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {0};
        if (parse_changed(cases[i].from, cases[i].to, &error) == BASE_OK) {
            fail_msg("accepted: %s", cases[i].to);
        }
        if (strstr(error.message, cases[i].named) == NULL) {
            fail_msg("%s: '%s' does not name %s", cases[i].to, error.message, cases[i].named);
        }
    }
}

static void limits_hold_on_both_sides(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    job.batch = 65536;
    job.context = 65536; /* each in range, together too many tokens */
    assert_status(proto_job_write(&job, &text, &text_bytes, &error), BASE_ERR_INVALID);
    proto_job_defaults(&job);
    memcpy(job.data, "/\xff", 3);
    assert_status(proto_job_write(&job, &text, &text_bytes, &error), BASE_ERR_INVALID);

    char *big = calloc(1, PROTO_JOB_BYTES_MAX + 1);
    assert_non_null(big);
    assert_status(proto_job_parse(big, PROTO_JOB_BYTES_MAX + 1, &job, &error), BASE_ERR_LIMIT);
    free(big);
}

static void a_field_is_set_from_a_text(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job_defaults(&job);
    assert_ok(proto_job_set(&job, "steps", "7", &error), &error);
    assert_ok(proto_job_set(&job, "learning_rate", "1e-3", &error), &error);
    assert_ok(proto_job_set(&job, "transport", "zmq", &error), &error);
    assert_ok(proto_job_set(&job, "eval", "true", &error), &error);
    assert_int_equal(job.steps, 7);
    assert_true(job.learning_rate == 1e-3);
    assert_string_equal(job.transport, "zmq");
    assert_true(job.eval);

    static const char *const wrong[][2] = {
        {"steps", "7x"},
        {"steps", ""},
        {"steps", "0"},
        {"steps", "1e3"},
        {"steps", "99999999999999999999"},
        {"learning_rate", "x"},
        {"beta1", "1"},
        {"clip_norm", "nan"},
        {"clip_norm", "inf"},
        {"transport", "udp"},
        {"tcp_auth", "none"},
        {"eval", "yes"},
        {"out", "relative"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (proto_job_set(&job, wrong[i][0], wrong[i][1], &error) != BASE_ERR_INVALID) {
            fail_msg("%s = '%s' was accepted", wrong[i][0], wrong[i][1]);
        }
    }
    assert_status(proto_job_set(&job, "nothing", "1", &error), BASE_ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_comes_back),          cmocka_unit_test(the_text_is_canonical),
        cmocka_unit_test(what_is_wrong_is_named),    cmocka_unit_test(a_field_is_set_from_a_text),
        cmocka_unit_test(limits_hold_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
