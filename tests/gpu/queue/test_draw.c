/* Drawing on the emulator: more rows than one launch has room for. What is drawn of a row is a parity
 * case. */
#include <string.h>

#include "backend/cuda/kernels/kernels.h"
#include "emulate/emulate.h"
#include "queues.h"
#include "support.h"

/* With the room for two rows, launches follow each other; each row's largest is found as with room for
 * all. */
static void rows_are_drawn_in_turns(void **state)
{
    enum { ROWS = 5, COLUMNS = 5000, PIECES = 3, PIECE_DOUBLES = 3 };
    base_error error;
    float logits[ROWS * COLUMNS] = {0};
    (void)state;
    rank_device device = queue_open();
    const rank_backend *backend = device.backend;
    float *values = queue_get(&device, RANK_MEMORY_WORK, sizeof logits);
    double *partials =
        queue_get(&device, RANK_MEMORY_WORK, ROWS * PIECES * PIECE_DOUBLES * sizeof(double));
    rank_draw_row *of = queue_get(&device, RANK_MEMORY_HOST, ROWS * sizeof *of);
    rank_drawn *drawn = queue_get(&device, RANK_MEMORY_HOST, ROWS * sizeof *drawn);
    void *host = NULL;
    for (int r = 0; r < ROWS; r++) {
        logits[r * COLUMNS + r * 1237] = (float)(r + 1);
    }
    memset(of, 0, ROWS * sizeof *of);
    assert_ok(backend->map(device.queue, values, sizeof logits, true, &host, &error), &error);
    memcpy(host, logits, sizeof logits);
    backend->unmap(device.queue, host);
    for (int room = 2; room <= ROWS; room += ROWS - 2) {
        const uint64_t kernels = emulate_count().kernels;
        memset(drawn, 0xff, ROWS * sizeof *drawn);
        cuda_launch_draw(&(rank_draw){.rows = ROWS,
                                      .columns = COLUMNS,
                                      .row_floats = COLUMNS,
                                      .values = values,
                                      .of = of,
                                      .drawn = drawn},
                         partials, (size_t)room * PIECES * PIECE_DOUBLES,
                         backend->stream(device.queue));
        assert_ok(backend->sync(device.queue, &error), &error);
        assert_int_equal(emulate_count().kernels - kernels, room == 2 ? 6 : 2);
        for (int r = 0; r < ROWS; r++) {
            assert_int_equal(drawn[r].index, r * 1237);
            assert_true(drawn[r].logit == (float)(r + 1));
            assert_int_equal(drawn[r].refused, -1);
        }
    }
    backend->release(device.queue, values);
    backend->release(device.queue, partials);
    backend->release(device.queue, of);
    backend->release(device.queue, drawn);
    queue_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_drawn_in_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
