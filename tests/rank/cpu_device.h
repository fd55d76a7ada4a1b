/* A queue of the CPU backend for all tests of a program. */
#ifndef TEST_CPU_DEVICE_H
#define TEST_CPU_DEVICE_H

#include "backend/backend.h"

extern rank_device test_device;

/* Group setup and teardown. */
int test_device_open(void **state);
int test_device_close(void **state);

#endif
