/* Of budget/receipt.h: the file beside the receipts that keeps the time. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "budget/receipt.h"
#include "support.h"

static mode_t renamed_mode; /* of the file that was renamed last */

/* The writer's renames go through here. */
__attribute__((visibility("default"))) int rename(const char *old, const char *new)
{
    struct stat info;
    renamed_mode = stat(old, &info) == 0 ? info.st_mode : 0;
    return renameat(AT_FDCWD, old, AT_FDCWD, new);
}

/* A reader refuses a file that others may read, so it must never be seen so, nor left so by a kill. */
static void the_file_never_has_its_name_and_an_open_mode(void **state)
{
    (void)state;
    base_error error;
    int64_t now_s = 0;
    const mode_t mask = umask(0);
    assert_ok(budget_receipt_now(test_shared_directory.path, &now_s, &error), &error);
    assert_int_equal(renamed_mode & 07777, 0600);
    (void)umask(mask);
    assert_ok(budget_receipt_now(test_shared_directory.path, &now_s, &error), &error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_never_has_its_name_and_an_open_mode),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
