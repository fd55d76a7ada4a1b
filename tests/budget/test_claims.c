/* budget/claims.h and keyring.h: canonical writing, strict reading, limits. */
#include "budget/claims.h"

#include <string.h>

#include "budget/keyring.h"
#include "sample_token.h"
#include "support.h"

static void claims_are_written_canonically(void **state)
{
    (void)state;
    const budget_claims claims = sample_claims();
    budget_claims parsed = {0};
    char text[BUDGET_CLAIMS_JSON_BYTES];
    size_t text_bytes = 0;
    base_error error = {0};
    assert_ok(budget_claims_write(&claims, text, &text_bytes, &error), &error);
    assert_int_equal(text_bytes, strlen(text));
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text,
                           "{\"account\":\"phase35/lab02\",\"aud\":\"ringfence/rank\",\"exp\":"
                           "\"2026-11-21T13:40:00Z\""));
    assert_ok(budget_claims_parse(text, text_bytes, &parsed, &error), &error);
    assert_memory_equal(&parsed, &claims, sizeof claims);
}

/* Parses the text, and expects nothing to be written if it is refused. */
static base_status parse_alone(const char *text, base_error *error)
{
    budget_claims parsed = {.label = "untouched"};
    const base_status status = budget_claims_parse(text, strlen(text), &parsed, error);
    assert_true(status == BASE_OK || strcmp(parsed.label, "untouched") == 0);
    return status;
}

static void claims_are_read_strictly(void **state)
{
    (void)state;
    static const test_change changes[] = {
        {"\"gpus\":1", "\"gpus\":1,\"gpus\":1", "uplicate"},
        {"\"gpus\":1", "\"gpus\":1.0", "gpus"},
        {"\"gpus\":1", "\"gpus\":\"1\"", "gpus"},
        {"\"gpus\":1", "\"gpus\":-1", "gpus"},
        {"\"gpus\":1", "\"gpus\":99999999999999999999", "integer"},
        {"\"gpus\":1", "\"gpus\":true", "gpus"},
        {"\"gpus\":1,", "", "gpus"},
        {"\"gpus\":1", "\"gpus\":1,\"more\":2", "more"},
        {"\"world_size\":2", "\"world_size\":0", "world_size"},
        {"\"world_size\":2", "\"world_size\":4097", "world_size"},
        {"\"max_usd_micro\":2000000", "\"max_usd_micro\":1000000000000001", "max_usd_micro"},
        {"\"max_usd_micro\":2000000", "\"max_usd_micro\":2e6", "max_usd_micro"},
        {"\"max_seconds\":3600", "\"max_seconds\":0", "max_seconds"},
        {"\"iss\":\"ringfence/budget-service\"", "\"iss\":\"somebody\"", "iss"},
        {"\"aud\":\"ringfence/rank\"", "\"aud\":\"somebody\"", "aud"},
        {"2026-11-21T13:40:00Z", "2026-11-21 13:40:00", "exp"},
        {"2026-11-21T13:40:00Z", "1795268400", "exp"},
        {"2026-11-21T13:40:00Z", "2020-01-01T00:00:00Z", "nbf"},
        {"\"jti\":\"0", "\"jti\":\"G", "jti"},
        {"\"jti\":\"0", "\"jti\":\"A", "jti"},
        {"\"jti\":\"00", "\"jti\":\"", "jti"},
        {"\"jti\":\"0", "\"jti\":\"00", "jti"},
        {"phase35/lab02", "phase35//lab02", "account"},
        {"phase35/lab02", "/phase35", "account"},
        {"phase35/lab02", "a/b/c/d/e/f/g/h/i", "account"},
        {"phase35/lab02", "phase 35", "account"},
        {"phase35/lab02", "", "account"},
        {"lab02-run1", "a\\\"b", "label"},
        {"lab02-run1", "a\\u0000b", "NUL"},
        {"lab02-run1", "r\xc3\xa9sum\xc3\xa9", "label"},
        {"RTX 4090", "RTX\\n4090", "instance_type"},
        {"\"vendor\":\"runpod\"", "\"vendor\":null", "vendor"},
        {"{\"account\"", "[{\"account\"", ""},
        {"{\"account\"", "x{\"account\"", ""},
    };
    const budget_claims claims = sample_claims();
    char text[BUDGET_CLAIMS_JSON_BYTES];
    size_t text_bytes = 0;
    base_error error;
    assert_ok(budget_claims_write(&claims, text, &text_bytes, &error), &error);
    test_changes_are_refused(text, changes, sizeof changes / sizeof changes[0], parse_alone);
}

static void a_long_text_is_refused(void **state)
{
    (void)state;
    budget_claims claims;
    char spaces[BUDGET_CLAIMS_JSON_BYTES + 1];
    memset(spaces, ' ', sizeof spaces);
    assert_status(budget_claims_parse(spaces, sizeof spaces, &claims, NULL), BASE_ERR_LIMIT);
}

/* A struct whose texts have no end, or odd numbers, is refused before anything is written. */
static void bad_structs_are_refused(void **state)
{
    (void)state;
    char text[BUDGET_CLAIMS_JSON_BYTES];
    size_t text_bytes = 0;
    budget_claims claims = sample_claims();
    memset(claims.label, 'x', sizeof claims.label);
    assert_status(budget_claims_write(&claims, text, &text_bytes, NULL), BASE_ERR_INVALID);
    claims = sample_claims();
    claims.max_price_usd_micro_per_hour = -1;
    assert_status(budget_claims_write(&claims, text, &text_bytes, NULL), BASE_ERR_INVALID);
    claims = sample_claims();
    claims.ledger_sequence = UINT64_MAX;
    assert_status(budget_claims_write(&claims, text, &text_bytes, NULL), BASE_ERR_INVALID);
    claims = sample_claims();
    claims.expires_at = claims.not_before - 1;
    assert_status(budget_claims_check(&claims, NULL), BASE_ERR_INVALID);
}

/* The largest claims there can be still fit a token. */
static void the_largest_claims_fit(void **state)
{
    (void)state;
    budget_claims claims = sample_claims();
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    base_error error = {0};
    char *const texts[] = {claims.subject, claims.label,         claims.account, claims.mode,
                           claims.vendor,  claims.instance_type, claims.tier,    claims.machine_id};
    const size_t sizes[] = {sizeof claims.subject, sizeof claims.label,
                            sizeof claims.account, sizeof claims.mode,
                            sizeof claims.vendor,  sizeof claims.instance_type,
                            sizeof claims.tier,    sizeof claims.machine_id};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        memset(texts[i], 'x', sizes[i] - 1);
        texts[i][sizes[i] - 1] = '\0';
    }
    claims.ledger_sequence = INT64_MAX;
    sample_key(1, secret, NULL);
    assert_ok(budget_token_sign(&claims, secret, token, &error), &error);
}

static void a_keyring_reads_back(void **state)
{
    (void)state;
    test_directory directory;
    budget_keyring keyring = {0};
    budget_keyring again = {0};
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    base_error error = {0};
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "keyring.json");
    for (uint8_t seed = 1; seed <= 5; seed++) {
        sample_key(seed, secret, &keyring);
    }
    keyring.keys[0].retired_at = SAMPLE_NOW;
    keyring.keys[0].not_after = SAMPLE_NOW + 7;
    keyring.keys[1].revoked_at = SAMPLE_NOW;
    assert_ok(budget_keyring_write(path, &keyring, &error), &error);
    assert_ok(budget_keyring_read(path, &again, &error), &error);
    assert_memory_equal(&again, &keyring, sizeof keyring);
    assert_ptr_equal(budget_keyring_find(&keyring, keyring.keys[3].kid), &keyring.keys[3]);
    assert_status(budget_keyring_add(&keyring, keyring.keys[3].key, 0, NULL), BASE_ERR_STATE);
    while (keyring.count < BUDGET_KEYRING_KEYS_MAX) {
        sample_key((uint8_t)(keyring.count + 1), secret, &keyring);
    }
    sample_key(200, secret, NULL);
    assert_status(budget_keyring_add(&keyring, secret + 32, 0, NULL), BASE_ERR_LIMIT);
    assert_status(budget_keyring_read(test_directory_path(&directory, "none"), &again, NULL),
                  BASE_ERR_NOTFOUND);
    test_directory_remove(&directory);
}

static void bad_keyrings_are_refused(void **state)
{
    (void)state;
#define KEY "\"key\":\"k4.public.ovovSjVboukHpTAJ6eN8rd96x-ZqCLoHYx9VMHKz8kw\""
#define KID "\"kid\":\"k4.pid.AqxS7CTl2jFMEAqz8FLzAgA-Iw0WndQE0S5Jp0voC7h_\""
    static const char good[] = "{\"keys\":[{" KEY "," KID "}],\"version\":1}";
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"keys\":[],\"version\":1}",
        "{\"keys\":{},\"version\":1}",
        "{\"keys\":[{" KEY "," KID "}]}",
        "{\"keys\":[{" KEY "," KID "}],\"version\":2}",
        "{\"keys\":[{" KEY "," KID "}],\"version\":1,\"more\":1}",
        "{\"keys\":[{" KEY "," KID "},{" KEY "," KID "}],\"version\":1}",
        "{\"keys\":[{" KEY "}],\"version\":1}",
        "{\"keys\":[{" KID "}],\"version\":1}",
        "{\"keys\":[{" KEY "," KID ",\"revoked\":true}],\"version\":1}",
        "{\"keys\":[{" KEY "," KID ",\"revoked_at\":1}],\"version\":1}",
        "{\"keys\":[{" KEY "," KID "," KID "}],\"version\":1}",
        ("{\"keys\":[{" KEY ",\"kid\":\"k4.pid.S_XQmeEwHbbvRmiyfXfHYpLGjXGzjTRSDoT1YtTakWFE\"}],"
         "\"version\":1}"),
        ("{\"keys\":[{\"key\":\"k4.public.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
         "\"kid\":\"k4.pid.S_XQmeEwHbbvRmiyfXfHYpLGjXGzjTRSDoT1YtTakWFE\"}],\"version\":1}"),
    };
    budget_keyring keyring = {0};
    base_error error = {0};
    assert_ok(budget_keyring_parse(good, strlen(good), &keyring, &error), &error);
    keyring.count = 7;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (budget_keyring_parse(bad[i], strlen(bad[i]), &keyring, &error) == BASE_OK) {
            fail_msg("taken: %s", bad[i]);
        }
        assert_int_equal(keyring.count, 7);
    }
    /* the versions come first: another one may have members that are not known here */
    static const char newer[] = "{\"keys\":{},\"more\":1,\"version\":2}";
    assert_status(budget_keyring_parse(newer, strlen(newer), &keyring, &error),
                  BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message,
                        "keyring: it has version 2, and this program reads version 1");
}

static int start(void **state)
{
    (void)state;
    return budget_crypto_init(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_written_canonically),
        cmocka_unit_test(claims_are_read_strictly),
        cmocka_unit_test(a_long_text_is_refused),
        cmocka_unit_test(bad_structs_are_refused),
        cmocka_unit_test(the_largest_claims_fit),
        cmocka_unit_test(a_keyring_reads_back),
        cmocka_unit_test(bad_keyrings_are_refused),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
