/* job/transfer.h: a file that is cut into chunks and put together again, partial files that are
 * continued, and what is not taken for the file. */
#include "job/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

enum { FILE_BYTES = 10 * PROTO_CHUNK_BYTES_MAX + 1000 };

static uint8_t whole[FILE_BYTES];
static uint8_t digest[PROTO_DIGEST_BYTES];

static int setup(void **state)
{
    base_error error;
    (void)test_shared_directory_make(state);
    for (size_t i = 0; i < sizeof whole; i++) {
        whole[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    proto_sha256(whole, sizeof whole, digest);
    assert_ok(base_file_write(test_shared_path("sent"), whole, sizeof whole, &error), &error);
    return 0;
}

static base_status open_incoming(const char *name, bool anew, launch_incoming **incoming)
{
    base_error error;
    const launch_incoming_options options = {
        .path = test_shared_path(name), .size_bytes = sizeof whole, .sha256 = digest, .anew = anew};
    return launch_incoming_open(&options, incoming, &error);
}

static launch_incoming_state step(launch_incoming *incoming)
{
    base_error error;
    launch_incoming_state state = LAUNCH_INCOMING_READS;
    while (state == LAUNCH_INCOMING_READS) {
        assert_ok(launch_incoming_step(incoming, &state, &error), &error);
    }
    return state;
}

/* Sends up to so many chunks. Returns how many were asked for at most at a time. */
static int send_chunks(launch_incoming *incoming, int chunks)
{
    static launch_chunk chunk;
    Ringfence__Control__Fetch fetch = RINGFENCE__CONTROL__FETCH__INIT;
    base_error error;
    uint64_t asked[FILE_BYTES / PROTO_CHUNK_BYTES_MAX + 1];
    int first = 0;
    int last = 0;
    int ahead_max = 0;
    for (;;) {
        uint64_t offset = 0;
        while (launch_incoming_ask(incoming, &offset)) {
            asked[last++] = offset;
        }
        ahead_max = last - first > ahead_max ? last - first : ahead_max;
        if (first == last || first == chunks) {
            return ahead_max;
        }
        fetch.offset = asked[first++];
        assert_ok(launch_chunk_read(test_shared_path("sent"), sizeof whole, &fetch, &chunk, &error),
                  &error);
        const Ringfence__Control__Chunk *body = &chunk.body;
        assert_ok(
            launch_incoming_take(incoming, body->offset, body->data.data, body->data.len, &error),
            &error);
    }
}

static void assert_received(const char *name)
{
    size_t got_bytes = 0;
    void *got = test_file_read(test_shared_path(name), &got_bytes);
    assert_int_equal(got_bytes, sizeof whole);
    assert_memory_equal(got, whole, sizeof whole);
    free(got);
}

static bool exists(const char *name)
{
    return access(test_shared_path(name), F_OK) == 0;
}

static void a_file_arrives_whole(void **state)
{
    (void)state;
    base_error error;
    launch_incoming *incoming = NULL;
    assert_status(open_incoming("whole", false, &incoming), BASE_OK);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_ASKS);
    assert_int_equal(send_chunks(incoming, 100), PROTO_CHUNKS_AHEAD_MAX);
    assert_false(exists("whole"));
    assert_int_equal(step(incoming), LAUNCH_INCOMING_WHOLE);
    assert_ok(launch_incoming_finish(incoming, &error), &error);
    assert_false(exists("whole.part"));
    assert_received("whole");
}

/* At any byte. */
static void a_partial_file_is_continued(void **state)
{
    (void)state;
    static const off_t cuts[] = {0,         1, 70000, 4 * PROTO_CHUNK_BYTES_MAX, FILE_BYTES - 1,
                                 FILE_BYTES};
    base_error error;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        launch_incoming *incoming = NULL;
        assert_ok(base_file_write(test_shared_path("cut.part"), whole, sizeof whole, &error),
                  &error);
        assert_int_equal(truncate(test_shared_path("cut.part"), cuts[i]), 0);
        assert_status(open_incoming("cut", false, &incoming), BASE_OK);
        assert_int_equal(step(incoming),
                         cuts[i] < FILE_BYTES ? LAUNCH_INCOMING_ASKS : LAUNCH_INCOMING_WHOLE);
        assert_int_equal(launch_incoming_found_bytes(incoming), cuts[i]);
        (void)send_chunks(incoming, 100);
        assert_int_equal(step(incoming), LAUNCH_INCOMING_WHOLE);
        assert_ok(launch_incoming_finish(incoming, &error), &error);
        assert_received("cut");
    }
}

/* What was given up half-way is continued, or not. */
static void a_transfer_is_given_up(void **state)
{
    (void)state;
    launch_incoming *incoming = NULL;
    assert_status(open_incoming("given", false, &incoming), BASE_OK);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_ASKS);
    (void)send_chunks(incoming, 3);
    launch_incoming_close(incoming, true);
    assert_true(exists("given.part"));
    assert_status(open_incoming("given", false, &incoming), BASE_OK);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_ASKS);
    assert_int_equal(launch_incoming_bytes(incoming), 3 * PROTO_CHUNK_BYTES_MAX);
    launch_incoming_close(incoming, true);
    assert_status(open_incoming("given", true, &incoming), BASE_OK);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_ASKS);
    assert_int_equal(launch_incoming_bytes(incoming), 0);
    launch_incoming_close(incoming, false);
    assert_false(exists("given.part"));
    launch_incoming_close(NULL, false);
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    base_error error;
    launch_incoming *incoming = NULL;
    assert_ok(base_file_write(test_shared_path("other.part"), "other", 5, &error), &error);
    assert_status(open_incoming("other", false, &incoming), BASE_OK);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_ASKS);
    (void)send_chunks(incoming, 100);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_WHOLE);
    assert_status(launch_incoming_finish(incoming, &error), BASE_ERR_INVALID);
    assert_false(exists("other"));
    assert_false(exists("other.part"));
}

static void chunks_out_of_place_are_refused(void **state)
{
    (void)state;
    base_error error;
    uint64_t offset = 1;
    launch_incoming *incoming = NULL;
    assert_status(open_incoming("place", false, &incoming), BASE_OK);
    assert_int_equal(step(incoming), LAUNCH_INCOMING_ASKS);
    /* not asked for */
    assert_status(launch_incoming_take(incoming, 0, whole, PROTO_CHUNK_BYTES_MAX, &error),
                  BASE_ERR_INVALID);
    assert_true(launch_incoming_ask(incoming, &offset));
    assert_int_equal(offset, 0);
    assert_true(launch_incoming_ask(incoming, &offset));
    /* the second before the first, a short one, one twice */
    assert_status(launch_incoming_take(incoming, offset, whole, PROTO_CHUNK_BYTES_MAX, &error),
                  BASE_ERR_INVALID);
    assert_status(launch_incoming_take(incoming, 0, whole, 100, &error), BASE_ERR_INVALID);
    assert_status(launch_incoming_take(incoming, 0, whole, PROTO_CHUNK_BYTES_MAX, &error), BASE_OK);
    assert_status(launch_incoming_take(incoming, 0, whole, PROTO_CHUNK_BYTES_MAX, &error),
                  BASE_ERR_INVALID);
    launch_incoming_close(incoming, false);
}

static void one_transfer_at_a_time(void **state)
{
    (void)state;
    launch_incoming *first = NULL;
    launch_incoming *second = NULL;
    assert_status(open_incoming("busy", false, &first), BASE_OK);
    assert_status(open_incoming("busy", false, &second), BASE_ERR_BUSY);
    launch_incoming_close(first, false);
    assert_status(open_incoming("busy", false, &second), BASE_OK);
    launch_incoming_close(second, false);
}

static void a_file_that_became_shorter_is_named(void **state)
{
    (void)state;
    static launch_chunk chunk;
    const Ringfence__Control__Fetch fetch = RINGFENCE__CONTROL__FETCH__INIT;
    base_error error;
    assert_ok(base_file_write(test_shared_path("short"), whole, 1000, &error), &error);
    assert_status(launch_chunk_read(test_shared_path("short"), 2000, &fetch, &chunk, &error),
                  BASE_ERR_INVALID);
    assert_has(error.message, "has become shorter than the 2000 bytes");
    assert_status(launch_chunk_read(test_shared_path("nowhere"), 2000, &fetch, &chunk, &error),
                  BASE_ERR_IO);
}

static void digests_come_in_steps(void **state)
{
    (void)state;
    base_error error;
    launch_hashing *hashing = NULL;
    bool ended = false;
    uint64_t size_bytes = 0;
    uint8_t got[PROTO_DIGEST_BYTES];
    assert_status(launch_hashing_open(test_shared_path("nowhere"), &hashing, &error), BASE_ERR_IO);
    assert_ok(launch_hashing_open(test_shared_path("sent"), &hashing, &error), &error);
    while (!ended) {
        assert_ok(launch_hashing_step(hashing, &ended, &size_bytes, got, &error), &error);
    }
    launch_hashing_close(hashing);
    assert_int_equal(size_bytes, sizeof whole);
    assert_memory_equal(got, digest, sizeof digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_arrives_whole),
        cmocka_unit_test(a_partial_file_is_continued),
        cmocka_unit_test(a_transfer_is_given_up),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(chunks_out_of_place_are_refused),
        cmocka_unit_test(one_transfer_at_a_time),
        cmocka_unit_test(a_file_that_became_shorter_is_named),
        cmocka_unit_test(digests_come_in_steps),
    };
    return cmocka_run_group_tests(tests, setup, test_shared_directory_remove);
}
