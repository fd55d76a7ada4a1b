/* Memory by descriptor: what a peer hands over is mapped only if it cannot change its size any more
 * and has just the size that was agreed; one mapping serves all ranks of a process. */
#include "core/segment.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

enum { BYTES = 8192 };

static int make(size_t size_bytes, int seals)
{
    const int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size_bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void refuse(int fd, const char *message)
{
    coll_error error = {.message = ""};
    void *data = NULL;
    assert_true(fd >= 0);
    assert_status(coll_segment_map(fd, BYTES, &data, &error), COLL_ERR_PEER);
    assert_non_null(strstr(error.message, message));
    assert_null(data);
    (void)close(fd);
}

/* With one that can be cut off, a rank dies of its next look. */
static void what_can_change_is_refused(void **state)
{
    static const int seals[] = {0, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL,
                                F_SEAL_SHRINK | F_SEAL_GROW};
    int ends[2];
    (void)state;
    for (size_t i = 0; i < sizeof seals / sizeof seals[0]; i++) {
        refuse(make(BYTES, seals[i]), "is not sealed");
    }
    assert_int_equal(pipe(ends), 0);
    (void)close(ends[1]);
    refuse(ends[0], "is not sealed");
    refuse(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "is not sealed");
}

static void other_sizes_are_refused(void **state)
{
    static const size_t sizes[] = {0, BYTES - 1, BYTES / 2, BYTES + 1, 2 * BYTES};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        refuse(make(sizes[i], F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), "bytes, not 8192");
    }
}

/* And the process goes on. */
static void what_is_beyond_the_file_size_is_an_error(void **state)
{
    struct rlimit before;
    coll_error error = {.message = ""};
    void *data = NULL;
    int fd = -1;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = BYTES, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const coll_status status = coll_segment_create(2 * BYTES, &fd, &data, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_status(status, COLL_ERR_IO);
    assert_non_null(strstr(error.message, "files may have 8192 bytes (ulimit -f)"));
    assert_int_equal(fd, -1);
}

static void no_descriptor_is_an_error(void **state)
{
    coll_error error = {.message = ""};
    void *data = NULL;
    (void)state;
    assert_status(coll_segment_map(-1, BYTES, &data, &error), COLL_ERR_IO);
    assert_non_null(strstr(error.message, "cannot look at"));
}

static void one_mapping_serves_all(void **state)
{
    coll_error error;
    int fds[2] = {-1, -1};
    void *data[2] = {NULL};
    void *again = NULL;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_ok(coll_segment_create(BYTES, &fds[i], &data[i], &error), &error);
        assert_int_equal(((uint8_t *)data[i])[BYTES - 1], 0);
    }
    assert_ptr_not_equal(data[0], data[1]);
    assert_int_not_equal(ftruncate(fds[0], 0), 0); /* not even by its maker */
    assert_int_not_equal(ftruncate(fds[0], 2 * (off_t)BYTES), 0);
    assert_ok(coll_segment_map(fds[0], BYTES, &again, &error), &error);
    assert_ptr_equal(again, data[0]);
    coll_segment_unmap(data[0]); /* one of two users */
    ((uint8_t *)again)[BYTES - 1] = 5;
    coll_segment_unmap(data[1]);
    coll_segment_unmap(again);
    coll_segment_unmap(NULL);
    assert_ok(coll_segment_map(fds[0], BYTES, &again, &error), &error);
    assert_int_equal(((uint8_t *)again)[BYTES - 1], 5);
    coll_segment_unmap(again);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* Only the whole pages inside the range go back, and they can be written again. */
static void pages_go_back(void **state)
{
    enum { PAGE = 4096, PAGES = 8, SIZE = PAGE * PAGES };
    coll_error error;
    struct stat before;
    struct stat after;
    void *data[2] = {NULL};
    int fd = -1;
    (void)state;
    assert_ok(coll_segment_create(SIZE, &fd, &data[0], &error), &error);
    assert_ok(coll_segment_create_private(SIZE, &data[1], &error), &error);
    for (int i = 0; i < 2; i++) {
        uint8_t *at = data[i];
        memset(at, 7, SIZE);
        assert_int_equal(fstat(fd, &before), 0);
        coll_segment_discard(at + PAGE - 1,
                             3 * PAGE + 2); /* three pages, and a byte at both ends */
        assert_int_equal(fstat(fd, &after), 0);
        assert_int_equal(before.st_blocks - after.st_blocks, i == 0 ? 3 * PAGE / 512 : 0);
        for (size_t byte = 0; byte < SIZE; byte++) { /* this system zeroes what it gives again */
            assert_int_equal(at[byte], byte / PAGE >= 1 && byte / PAGE < 4 ? 0 : 7);
        }
        memset(at, 9, SIZE);
        coll_segment_discard(at + 1, PAGE); /* no whole page */
        coll_segment_discard(at, 0);
        assert_int_equal(at[PAGE / 2], 9);
    }
    coll_segment_unmap(data[0]);
    coll_segment_free_private(data[1], SIZE);
    (void)close(fd);
}

static void sizes_are_whole_pages(void **state)
{
    (void)state;
    assert_int_equal(coll_segment_round(0), 4096);
    assert_int_equal(coll_segment_round(1), 4096);
    assert_int_equal(coll_segment_round(4096), 4096);
    assert_int_equal(coll_segment_round(4097), 8192);
    assert_int_equal(coll_segment_round(SIZE_MAX / 2 + 1), 0);
    assert_int_equal(coll_segment_round(SIZE_MAX), 0);
}

static void what_cannot_be_had_is_told(void **state)
{
    coll_error error = {.message = ""};
    void *data = NULL;
    int fd = 0;
    const size_t all = coll_segment_round(SIZE_MAX / 2);
    (void)state;
    assert_true(coll_segment_create(all, &fd, &data, &error) != COLL_OK);
    assert_int_equal(fd, -1);
    assert_null(data);
    assert_true(coll_segment_create_private(all, &data, &error) != COLL_OK);
    assert_non_null(strstr(error.message, "cannot map"));
    assert_null(data);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_change_is_refused),
        cmocka_unit_test(other_sizes_are_refused),
        cmocka_unit_test(what_is_beyond_the_file_size_is_an_error),
        cmocka_unit_test(no_descriptor_is_an_error),
        cmocka_unit_test(one_mapping_serves_all),
        cmocka_unit_test(pages_go_back),
        cmocka_unit_test(sizes_are_whole_pages),
        cmocka_unit_test(what_cannot_be_had_is_told),
    };
    return cmocka_run_group_tests_name("coll-segment", tests, NULL, NULL);
}
