/* budget/token.h and receipt.h: every flipped bit, cut and forged part of a token is refused. */
#include "budget/token.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "budget/receipt.h"
#include "sample_token.h"
#include "support.h"

static budget_verdict_token verify(const char *token, size_t token_bytes, base_error *why)
{
    static budget_keyring keyring;
    budget_claims claims;
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    keyring.count = 0;
    sample_key(1, secret, &keyring);
    return budget_token_verify(token, token_bytes, &keyring, SAMPLE_NOW, &claims, why);
}

static void a_token_says_what_was_signed(void **state)
{
    (void)state;
    budget_keyring keyring = {0};
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    char again[BUDGET_TOKEN_BYTES];
    budget_claims claims = {0};
    const budget_claims expected = sample_claims();
    base_error error = {0};
    sample_key(1, secret, &keyring);
    sample_token(token);
    sample_token(again);
    assert_string_equal(token, again);
    assert_int_equal(
        budget_token_verify(token, strlen(token), &keyring, SAMPLE_NOW, &claims, &error),
        BUDGET_TOKEN_OK);
    assert_memory_equal(&claims, &expected, sizeof claims);
}

/* Every bit of the text, those outside the alphabet included. */
static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    char token[BUDGET_TOKEN_BYTES];
    sample_token(token);
    const size_t length = strlen(token);
    assert_int_equal(verify(token, length, NULL), BUDGET_TOKEN_OK);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        token[bit / 8] ^= (char)(1 << bit % 8);
        const budget_verdict_token verdict = verify(token, length, NULL);
        if (verdict != BUDGET_TOKEN_MALFORMED && verdict != BUDGET_TOKEN_UNKNOWN_KEY &&
            verdict != BUDGET_TOKEN_BAD_SIGNATURE) {
            fail_msg("bit %zu flipped: %s", bit, budget_verdict_token_name(verdict));
        }
        token[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void every_cut_and_every_addition_is_refused(void **state)
{
    (void)state;
    char token[BUDGET_TOKEN_BYTES];
    sample_token(token);
    const size_t length = strlen(token);
    for (size_t cut = 0; cut < length; cut++) {
        assert_int_not_equal(verify(token, cut, NULL), BUDGET_TOKEN_OK);
    }
    for (int c = 0; c < 256; c++) {
        token[length] = (char)c;
        assert_int_not_equal(verify(token, length + 1, NULL), BUDGET_TOKEN_OK);
    }
}

/* Builds header.body.footer from a good token, with another footer text. */
static void with_footer(const char *footer, char token[BUDGET_TOKEN_BYTES])
{
    sample_token(token);
    char *dot = strrchr(token, '.');
    (void)sodium_bin2base64(dot + 1, (size_t)(token + BUDGET_TOKEN_BYTES - dot - 1),
                            (const uint8_t *)footer, strlen(footer),
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static void footers_are_read_strictly(void **state)
{
    (void)state;
#define KID "k4.pid.AqxS7CTl2jFMEAqz8FLzAgA-Iw0WndQE0S5Jp0voC7h_"
    static const char *const footers[] = {
        "{\"kid\":\"" KID "\",\"kid\":\"" KID "\"}",
        "{\"kid\":{\"kid\":\"" KID "\"}}",
        "[\"" KID "\"]",
        "{\"kid\":[\"" KID "\"]}",
        "{\"kid\":\"" KID "\"",
        "{\"kid\":\"" KID "\"} x",
        "{\"KID\":\"" KID "\"}",
        "{\"kid\":\"x" KID "\"}",
        "{\"\\u006bid\":\"" KID "\"}",
        "\"" KID "\"",
        KID,
        "{}",
        "null",
        "{\"kid\":null}",
        "{\"kid\":1}",
        "{\"kid\":\"k4.pid.\"}",
        "{\"kid\":\"k4.pid.AAAA\"}",
        "{\"kid\":\"k2.pid.AqxS7CTl2jFMEAqz8FLzAgA-Iw0WndQE0S5Jp0voC7h_\"}",
    };
    char token[BUDGET_TOKEN_BYTES];
    char footer[512];
    for (size_t i = 0; i < sizeof footers / sizeof footers[0]; i++) {
        with_footer(footers[i], token);
        assert_int_equal(verify(token, strlen(token), NULL), BUDGET_TOKEN_MALFORMED);
    }
    with_footer("{\"kid\":\"" KID "\"}", token);
    assert_int_equal(verify(token, strlen(token), NULL), BUDGET_TOKEN_UNKNOWN_KEY);
    memset(footer, ' ', BUDGET_FOOTER_BYTES_MAX + 1);
    footer[BUDGET_FOOTER_BYTES_MAX + 1] = '\0';
    with_footer(footer, token);
    assert_int_equal(verify(token, strlen(token), NULL), BUDGET_TOKEN_MALFORMED);
}

static void other_headers_and_shapes_are_refused(void **state)
{
    (void)state;
    static const char *const heads[] = {"v4.local.",  "v3.public.",  "v2.public.", "V4.public.",
                                        "v4.PUBLIC.", " v4.public.", "v4.public.."};
    char token[BUDGET_TOKEN_BYTES];
    char changed[BUDGET_TOKEN_BYTES + 16];
    sample_token(token);
    const char *rest = token + strlen("v4.public.");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        (void)snprintf(changed, sizeof changed, "%s%s", heads[i], rest);
        assert_int_equal(verify(changed, strlen(changed), NULL), BUDGET_TOKEN_MALFORMED);
    }
    *strrchr(token, '.') = '\0'; /* no footer: no key */
    assert_int_equal(verify(token, strlen(token), NULL), BUDGET_TOKEN_MALFORMED);
    static char huge[1 << 20];
    memset(huge, 'A', sizeof huge);
    memcpy(huge, "v4.public.", 10);
    assert_int_equal(verify(huge, sizeof huge, NULL), BUDGET_TOKEN_MALFORMED);
}

static void keys_unknown_revoked_and_retired_are_told_apart(void **state)
{
    (void)state;
    budget_keyring keyring = {0};
    budget_keyring other = {0};
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    budget_claims claims;
    base_error why = {0};
    sample_key(1, secret, &keyring);
    sample_key(2, secret, &other);
    sample_token(token);
    const size_t length = strlen(token);
    assert_int_equal(budget_token_verify(token, length, &other, SAMPLE_NOW, &claims, &why),
                     BUDGET_TOKEN_UNKNOWN_KEY);
    assert_non_null(strstr(why.message, keyring.keys[0].kid));
    keyring.keys[0].retired_at = SAMPLE_NOW; /* after the token was made */
    keyring.keys[0].not_after = SAMPLE_NOW + 3600;
    assert_int_equal(budget_token_verify(token, length, &keyring, SAMPLE_NOW, &claims, &why),
                     BUDGET_TOKEN_OK);
    keyring.keys[0].not_after = SAMPLE_NOW + 3599;
    assert_int_equal(budget_token_verify(token, length, &keyring, SAMPLE_NOW, &claims, &why),
                     BUDGET_TOKEN_RETIRED_KEY);
    keyring.keys[0].not_after = 0;
    keyring.keys[0].retired_at = SAMPLE_NOW - 61;
    assert_int_equal(budget_token_verify(token, length, &keyring, SAMPLE_NOW, &claims, &why),
                     BUDGET_TOKEN_RETIRED_KEY);
    for (int retired = 1; retired >= 0; retired--) { /* a key may be revoked in use */
        keyring.keys[0].retired_at = retired * (SAMPLE_NOW - 61);
        keyring.keys[0].revoked_at = SAMPLE_NOW;
        assert_int_equal(budget_token_verify(token, length, &keyring, SAMPLE_NOW, &claims, &why),
                         BUDGET_TOKEN_REVOKED_KEY);
    }
}

/* Another key's signature under our kid. */
static void a_forged_signature_is_named(void **state)
{
    (void)state;
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    char forged[BUDGET_TOKEN_BYTES];
    const budget_claims claims = sample_claims();
    base_error why = {0};
    sample_token(token);
    sample_key(2, secret, NULL);
    assert_ok(budget_token_sign(&claims, secret, forged, &why), &why);
    (void)snprintf(strrchr(forged, '.'), BUDGET_FOOTER_BYTES_MAX, "%s", strrchr(token, '.'));
    assert_int_equal(verify(forged, strlen(forged), &why), BUDGET_TOKEN_BAD_SIGNATURE);
    assert_non_null(strstr(why.message, "signature is wrong"));
}

static void times_are_checked_at_their_very_second(void **state)
{
    (void)state;
    budget_keyring keyring = {0};
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    budget_claims claims = {0};
    sample_key(1, secret, &keyring);
    sample_token(token);
    static const struct {
        int64_t now_s;
        budget_verdict_token verdict;
    } cases[] = {
        {SAMPLE_NOW - 121, BUDGET_TOKEN_NOT_YET},
        {SAMPLE_NOW - 120, BUDGET_TOKEN_OK},
        {SAMPLE_NOW + 3599, BUDGET_TOKEN_OK},
        {SAMPLE_NOW + 3600, BUDGET_TOKEN_EXPIRED},
        {INT64_MAX, BUDGET_TOKEN_EXPIRED},
        {BUDGET_ANY_TIME, BUDGET_TOKEN_OK},
        {0, BUDGET_TOKEN_NOT_YET},
        {-5, BUDGET_TOKEN_NOT_YET},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        claims = (budget_claims){0};
        assert_int_equal(
            budget_token_verify(token, strlen(token), &keyring, cases[i].now_s, &claims, NULL),
            cases[i].verdict);
        assert_string_equal(claims.label, "lab02-run1");
    }
}

static void a_token_of_another_job_is_told_apart(void **state)
{
    (void)state;
    budget_claims claims = sample_claims();
    const size_t job_bytes = strlen(sample_job);
    base_error why = {0};
    assert_int_equal(budget_token_check_job(&claims, sample_job, job_bytes, "ddp-nccl", 2, &why),
                     BUDGET_TOKEN_OK);
    assert_int_equal(
        budget_token_check_job(&claims, sample_job, job_bytes - 1, "ddp-nccl", 2, &why),
        BUDGET_TOKEN_WRONG_JOB);
    assert_non_null(strstr(why.message, "another job"));
    assert_int_equal(budget_token_check_job(&claims, sample_job, job_bytes, "tp-nccl", 2, &why),
                     BUDGET_TOKEN_WRONG_JOB);
    assert_non_null(strstr(why.message, "mode ddp-nccl"));
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        assert_int_equal(
            budget_token_check_job(&claims, sample_job, job_bytes, "ddp-nccl", ranks, &why),
            BUDGET_TOKEN_WRONG_JOB);
        assert_non_null(strstr(why.message, "2 ranks"));
    }
    for (size_t i = 0; i < sizeof claims.job_blake2b256; i++) { /* all of the digest counts */
        claims.job_blake2b256[i] ^= 1;
        assert_int_equal(
            budget_token_check_job(&claims, sample_job, job_bytes, "ddp-nccl", 2, &why),
            BUDGET_TOKEN_WRONG_JOB);
        claims.job_blake2b256[i] ^= 1;
    }
}

static budget_receipt sample_receipt(void)
{
    return (budget_receipt){.jti = "00112233445566778899aabbccddeeff",
                            .rank = 1,
                            .attempt = 2,
                            .job_public_key = {9, 8, 7},
                            .issued_at = SAMPLE_NOW - 10,
                            .not_after = SAMPLE_NOW + 100};
}

/* A host whose clock is behind knows from the receipt how much time there can be. */
static void a_clock_that_is_behind_gains_no_time(void **state)
{
    (void)state;
    const budget_receipt receipt = sample_receipt();
    assert_int_equal(budget_receipt_left_s(&receipt, SAMPLE_NOW), 100);
    assert_int_equal(budget_receipt_left_s(&receipt, SAMPLE_NOW + 101), -1);
    assert_int_equal(budget_receipt_left_s(&receipt, SAMPLE_NOW - 10), 110);
    assert_int_equal(budget_receipt_left_s(&receipt, SAMPLE_NOW - 7200), 110);
}

static void receipts_and_tokens_do_not_pass_for_each_other(void **state)
{
    (void)state;
    budget_keyring keyring = {0};
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    char receipt_text[BUDGET_TOKEN_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    const budget_receipt expected = sample_receipt();
    budget_receipt receipt = {0};
    base_error why = {0};
    sample_key(1, secret, &keyring);
    sample_token(token);
    assert_ok(budget_receipt_sign(&expected, secret, receipt_text, &why), &why);
    const size_t length = strlen(receipt_text);
    assert_int_equal(
        budget_receipt_verify(receipt_text, length, &keyring, SAMPLE_NOW, &receipt, &why),
        BUDGET_TOKEN_OK);
    assert_memory_equal(&receipt, &expected, sizeof receipt);
    assert_int_equal(
        budget_receipt_verify(receipt_text, length, &keyring, SAMPLE_NOW + 100, &receipt, &why),
        BUDGET_TOKEN_EXPIRED);
    keyring.keys[0].retired_at = expected.issued_at;
    assert_int_equal(
        budget_receipt_verify(receipt_text, length, &keyring, SAMPLE_NOW, &receipt, &why),
        BUDGET_TOKEN_OK);
    keyring.keys[0].not_after = SAMPLE_NOW + 50; /* which is before the receipt's */
    const struct {
        int64_t now_s;
        budget_verdict_token verdict;
    } times[] = {{SAMPLE_NOW + 49, BUDGET_TOKEN_OK},
                 {SAMPLE_NOW + 50, BUDGET_TOKEN_RETIRED_KEY},
                 {SAMPLE_NOW + 1000, BUDGET_TOKEN_RETIRED_KEY},
                 {BUDGET_ANY_TIME, BUDGET_TOKEN_OK}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_int_equal(
            budget_receipt_verify(receipt_text, length, &keyring, times[i].now_s, &receipt, &why),
            times[i].verdict);
    }
    assert_non_null(strstr(why.message, "redeem again"));
    keyring.keys[0].not_after = 0;
    keyring.keys[0].retired_at = expected.issued_at - 1;
    assert_int_equal(
        budget_receipt_verify(receipt_text, length, &keyring, SAMPLE_NOW, &receipt, &why),
        BUDGET_TOKEN_RETIRED_KEY);
    keyring.keys[0].retired_at = 0;
    assert_int_equal(verify(receipt_text, length, &why), BUDGET_TOKEN_BAD_SIGNATURE);
    assert_non_null(strstr(why.message, "this is a receipt"));
    assert_int_equal(
        budget_receipt_verify(token, strlen(token), &keyring, SAMPLE_NOW, &receipt, &why),
        BUDGET_TOKEN_BAD_SIGNATURE);
    assert_non_null(strstr(why.message, "this is an authorization"));
}

static void a_receipt_fits_one_place_alone(void **state)
{
    (void)state;
    const budget_receipt expected = sample_receipt();
    budget_receipt others[4] = {expected, expected, expected, expected};
    others[0].jti[0] = 'f';
    others[1].rank = 0;
    others[2].attempt = 1;
    others[3].job_public_key[31] = 1;
    assert_int_equal(budget_receipt_check(&expected, &expected, NULL), BUDGET_TOKEN_OK);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(budget_receipt_check(&others[i], &expected, NULL), BUDGET_TOKEN_WRONG_JOB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_says_what_was_signed),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(every_cut_and_every_addition_is_refused),
        cmocka_unit_test(footers_are_read_strictly),
        cmocka_unit_test(other_headers_and_shapes_are_refused),
        cmocka_unit_test(keys_unknown_revoked_and_retired_are_told_apart),
        cmocka_unit_test(a_forged_signature_is_named),
        cmocka_unit_test(times_are_checked_at_their_very_second),
        cmocka_unit_test(a_token_of_another_job_is_told_apart),
        cmocka_unit_test(a_clock_that_is_behind_gains_no_time),
        cmocka_unit_test(receipts_and_tokens_do_not_pass_for_each_other),
        cmocka_unit_test(a_receipt_fits_one_place_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
