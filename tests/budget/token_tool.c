/* What tests/oracle/check_tokens.py calls: signs, verifies, wraps and unwraps what it is given.
 * Secrets in a command line are fine for keys that a test made up. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "budget/secret_key.h"
#include "budget/token.h"
#include "paserk.h"

#define SECRET_HEADER "k4.secret."

enum { SECRET_TEXT_BYTES = 97 }; /* the header and 86 characters; with NUL */

static int report(base_status status, const base_error *error)
{
    if (status != BASE_OK) {
        (void)fprintf(stderr, "token-tool: %s\n", error->message);
    }
    return status == BASE_OK ? 0 : 1;
}

static int sign(const char *secret, const char *payload)
{
    uint8_t key[BUDGET_SECRET_KEY_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    base_error error = {0};
    if (!budget_paserk_decode(SECRET_HEADER, secret, strlen(secret), key, sizeof key)) {
        return report(base_fail(&error, BASE_ERR_INVALID, "not a secret key (k4.secret.…)"),
                      &error);
    }
    const base_status status = budget_token_sign_bytes(
        payload, strlen(payload), BUDGET_ASSERTION_AUTHORIZATION, key, token, &error);
    if (status == BASE_OK) {
        (void)puts(token);
    }
    return report(status, &error);
}

static int verify(const char *keyring_path, const char *token)
{
    static budget_keyring keyring;
    budget_claims claims;
    base_error error = {0};
    const base_status status = budget_keyring_read(keyring_path, &keyring, &error);
    if (status != BASE_OK) {
        return report(status, &error);
    }
    const budget_verdict_token verdict =
        budget_token_verify(token, strlen(token), &keyring, BUDGET_ANY_TIME, &claims, &error);
    (void)puts(budget_verdict_token_name(verdict));
    return verdict == BUDGET_TOKEN_OK ? 0 : 1;
}

static budget_passphrase *passphrase_of(const char *text)
{
    int fds[2];
    budget_passphrase *passphrase = NULL;
    if (pipe(fds) != 0 || write(fds[1], text, strlen(text)) < 0 || close(fds[1]) != 0) {
        return NULL;
    }
    const budget_passphrase_source source = {.fd = fds[0]};
    return budget_passphrase_open(&source, &passphrase, NULL) == BASE_OK ? passphrase : NULL;
}

static bool print_secret(const budget_secret_key *key)
{
    char text[SECRET_TEXT_BYTES];
    return budget_paserk_encode(SECRET_HEADER, budget_secret_key_bytes(key),
                                BUDGET_SECRET_KEY_BYTES, text, sizeof text) &&
           puts(text) >= 0;
}

/* Makes a key, and prints it in clear and wrapped. */
static int wrap(const char *passphrase_text, const char *nothing)
{
    static const budget_key_cost cost = {1 << 20, 1};
    budget_secret_key *key = NULL;
    budget_passphrase *passphrase = passphrase_of(passphrase_text);
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    base_error error = {0};
    base_status status = budget_secret_key_make(&key, &error);
    (void)nothing;
    if (status == BASE_OK) {
        status = budget_secret_key_wrap(key, passphrase, &cost, text, &error);
    }
    if (status == BASE_OK && print_secret(key)) {
        (void)puts(text);
    }
    budget_secret_key_free(key);
    budget_passphrase_close(passphrase);
    return report(status, &error);
}

static int unwrap(const char *wrapped, const char *passphrase_text)
{
    budget_secret_key *key = NULL;
    budget_passphrase *passphrase = passphrase_of(passphrase_text);
    base_error error = {0};
    const base_status status =
        budget_secret_key_unwrap(wrapped, strlen(wrapped), passphrase, &key, &error);
    if (status == BASE_OK) {
        (void)print_secret(key);
    }
    budget_secret_key_free(key);
    budget_passphrase_close(passphrase);
    return report(status, &error);
}

int main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)(const char *first, const char *second);
        int argument_count;
    } commands[] = {
        {"sign", sign, 4}, {"verify", verify, 4}, {"wrap", wrap, 3}, {"unwrap", unwrap, 4}};
    if (argument_count > 2 && budget_crypto_init(NULL) == BASE_OK) {
        for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
            if (strcmp(arguments[1], commands[i].name) == 0 &&
                argument_count == commands[i].argument_count) {
                return commands[i].run(arguments[2], arguments[3]);
            }
        }
    }
    (void)fputs("usage: token-tool sign K4.SECRET PAYLOAD | verify KEYRING TOKEN |\n"
                "       wrap PASSPHRASE | unwrap K4.SECRET-PW PASSPHRASE\n",
                stderr);
    return 2;
}
