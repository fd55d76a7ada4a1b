/* cli/key_store.h: a full keyring takes no further key, and loses none. */
#include "key_store.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static void a_full_keyring_keeps_its_keys(void **state)
{
    static key_store store;
    test_directory directory;
    uint8_t public_key[BUDGET_PUBLIC_KEY_BYTES];
    uint8_t secret_key[BUDGET_SECRET_KEY_BYTES];
    budget_secret_key *made = NULL;
    base_error error = {0};
    (void)state;
    test_directory_make(&directory);
    (void)snprintf(store.dir, sizeof store.dir, "%s", directory.path);
    while (store.keyring.count < BUDGET_KEYRING_KEYS_MAX) {
        assert_int_equal(crypto_sign_keypair(public_key, secret_key), 0);
        assert_ok(budget_keyring_add(&store.keyring, public_key, 1, &error), &error);
    }
    assert_status(key_store_make(&store, NULL, 2, &made, &error), BASE_ERR_LIMIT);
    assert_non_null(strstr(error.message, store.keyring.keys[0].kid));
    assert_int_equal(store.keyring.count, BUDGET_KEYRING_KEYS_MAX);
    assert_int_not_equal(access(test_directory_path(&directory, "keys"), F_OK), 0);
    test_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_keyring_keeps_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
