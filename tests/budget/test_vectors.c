/* PASETO's, PASERK's and Ed25519's public vectors; where they come from: tests/oracle/. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "paseto.h"
#include "support.h"

enum { FIELDS_MAX = 6, LINE_BYTES = 4096, MESSAGE_BYTES = 256 };

/* The next row of a fixture, "-" as the empty field; 0 at its end. */
static int next_row(FILE *file, char line[LINE_BYTES], char *fields[FIELDS_MAX])
{
    static char empty[] = "";
    int count = 0;
    do {
        if (fgets(line, LINE_BYTES, file) == NULL) {
            return 0;
        }
    } while (line[0] == '#');
    line[strcspn(line, "\n")] = '\0';
    for (char *at = line; at != NULL && count < FIELDS_MAX; count++) {
        fields[count] = at;
        at = strchr(at, '\t');
        if (at != NULL) {
            *at++ = '\0';
        }
        if (strcmp(fields[count], "-") == 0) {
            fields[count] = empty;
        }
    }
    return count;
}

static FILE *open_fixture(const char *name)
{
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", ORACLE_DIRECTORY, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    return file;
}

static size_t from_hex(const char *hex, uint8_t *bytes, size_t size_bytes)
{
    size_t length = 0;
    assert_int_equal(sodium_hex2bin(bytes, size_bytes, hex, strlen(hex), NULL, &length, NULL), 0);
    return length;
}

static void check_good_token(char *const fields[FIELDS_MAX], const uint8_t *secret,
                             const uint8_t *key)
{
    static budget_token_parts parts;
    char token[BUDGET_TOKEN_BYTES];
    const char *assertion = fields[2];
    const budget_piece payload = {fields[3], strlen(fields[3])};
    const budget_piece footer = {fields[4], strlen(fields[4])};
    assert_true(budget_paseto_sign(payload, footer, assertion, secret, token));
    assert_string_equal(token, fields[5]);
    assert_null(budget_paseto_decode(token, strlen(token), &parts));
    assert_int_equal(parts.payload_bytes, payload.size_bytes);
    assert_memory_equal(parts.payload, payload.data, payload.size_bytes);
    assert_int_equal(parts.footer_bytes, footer.size_bytes);
    assert_memory_equal(parts.footer, footer.data, footer.size_bytes);
    assert_true(budget_paseto_signature_ok(&parts, assertion, key));
    assert_false(budget_paseto_signature_ok(&parts, "another assertion", key));
}

static void paseto_v4(void **state)
{
    (void)state;
    static budget_token_parts parts;
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    char line[LINE_BYTES];
    char *fields[FIELDS_MAX];
    int good = 0;
    int bad = 0;
    FILE *file = open_fixture("paseto_v4.tsv");
    (void)from_hex(
        "b4cbfb43df4ce210727d953e4a713307fa19bb7d9f85041438d9e11b942a37741eb9dbbbbc047c03"
        "fd70604e0071f0987e16b28b757225c11f00415d0e20b1a2",
        secret, sizeof secret);
    memcpy(key, secret + 32, sizeof key);
    while (next_row(file, line, fields) == FIELDS_MAX) {
        if (strcmp(fields[0], "good") == 0) {
            check_good_token(fields, secret, key);
            good++;
        } else {
            assert_true(budget_paseto_decode(fields[5], strlen(fields[5]), &parts) != NULL ||
                        !budget_paseto_signature_ok(&parts, fields[2], key));
            bad++;
        }
    }
    (void)fclose(file);
    assert_int_equal(good, 3);
    assert_int_equal(bad, 6);
}

static void paserk_k4(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    char *fields[FIELDS_MAX];
    int count = 0;
    FILE *file = open_fixture("paserk_k4.tsv");
    while (next_row(file, line, fields) == 3) {
        uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
        uint8_t parsed[BUDGET_PUBLIC_KEY_BYTES];
        char text[BUDGET_PASERK_PUBLIC_BYTES];
        char kid[BUDGET_KID_BYTES];
        base_error error = {0};
        (void)from_hex(fields[0], key, sizeof key);
        budget_paserk_public(key, text);
        budget_paserk_pid(key, kid);
        assert_string_equal(text, fields[1]);
        assert_string_equal(kid, fields[2]);
        assert_ok(budget_paserk_public_parse(text, strlen(text), parsed, &error), &error);
        assert_memory_equal(parsed, key, sizeof key);
        count++;
    }
    (void)fclose(file);
    assert_int_equal(count, 3);
}

static void public_keys_of_other_forms_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "k4.public.",
        "k4.public.AAAA",
        "k3.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "k4.secret.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "K4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8=",
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo9", /* stray bits at the end */
        "k4.public.cHFyc3R1dnd4eXp7fH1+f4CBgoOEhYaHiImKi4yNjo8", /* the other base64 */
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8\n",
        "k4.public.AnBxcnN0dXZ3eHl6e3x9fn-AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2enw", /* k3's */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
        assert_status(budget_paserk_public_parse(texts[i], strlen(texts[i]), key, NULL),
                      BASE_ERR_INVALID);
    }
}

/* A signature counts only under a key that a keyring takes: libsodium alone accepts some of the
 * signatures by points of mixed order, the keyring does not accept such points. */
static void ed25519(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    char *fields[FIELDS_MAX];
    int good = 0;
    int bad = 0;
    FILE *file = open_fixture("ed25519.tsv");
    while (next_row(file, line, fields) == 4) {
        static budget_keyring keyring;
        uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
        uint8_t message[MESSAGE_BYTES];
        uint8_t signature[crypto_sign_BYTES];
        keyring.count = 0;
        (void)from_hex(fields[1], key, sizeof key);
        const size_t message_bytes = from_hex(fields[2], message, sizeof message);
        assert_int_equal(from_hex(fields[3], signature, sizeof signature), sizeof signature);
        const bool accepted =
            budget_keyring_add(&keyring, key, 0, NULL) == BASE_OK &&
            crypto_sign_verify_detached(signature, message, message_bytes, key) == 0;
        assert_int_equal(accepted, strcmp(fields[0], "good") == 0);
        good += accepted ? 1 : 0;
        bad += accepted ? 0 : 1;
    }
    (void)fclose(file);
    assert_int_equal(good, 5);
    assert_true(bad >= 50);
}

/* The points whose order is 8 or less, canonical or not: a token "signed" by one proves nothing. */
static void weak_public_keys_enter_no_keyring(void **state)
{
    (void)state;
    static const char *const weak[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d", /* of mixed order */
        "0200000000000000000000000000000000000000000000000000000000000000", /* off the curve */
    };
    for (size_t i = 0; i < sizeof weak / sizeof weak[0]; i++) {
        static budget_keyring keyring;
        uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
        (void)from_hex(weak[i], key, sizeof key);
        assert_status(budget_keyring_add(&keyring, key, 0, NULL), BASE_ERR_INVALID);
    }
}

static int start(void **state)
{
    (void)state;
    return budget_crypto_init(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paseto_v4),
        cmocka_unit_test(paserk_k4),
        cmocka_unit_test(public_keys_of_other_forms_are_refused),
        cmocka_unit_test(ed25519),
        cmocka_unit_test(weak_public_keys_enter_no_keyring),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
