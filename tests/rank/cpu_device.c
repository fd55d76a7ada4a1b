/* A queue of the CPU backend for all tests of a program. Used by the tests of single operations. */
#include "cpu_device.h"

#include "support.h"

rank_device test_device;

int test_device_open(void **state)
{
    base_error error;
    (void)state;
    assert_ok(rank_device_open("cpu", &test_device, &error), &error);
    return 0;
}

int test_device_close(void **state)
{
    (void)state;
    rank_device_close(&test_device);
    return 0;
}
