/* A device for tests of operations on streams: host memory, and a fake_stream for each stream. Its
 * collectives are those of a real device as far as libcoll can
 * tell: they meet the same operation of every rank, and wait for ever where one does not come.
 *
 * Ranks are threads of one process. A device fails on demand. */
#ifndef TEST_COLL_FAKE_DEVICE_H
#define TEST_COLL_FAKE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "coll/backend.h"
#include "fake_stream.h"

typedef enum fake_fault {
    FAKE_SOUND = 0,
    FAKE_OPEN_FAILS,
    FAKE_OPEN_HANGS,  /* poll never says ready */
    FAKE_MAKE_FAILS,  /* op_make says out of memory */
    FAKE_START_FAILS, /* at once */
    FAKE_START_HANGS, /* poll says not ready from then on */
    FAKE_ASYNC_ERROR, /* poll says error from then on */
    FAKE_RUN_HANGS,   /* the stream stands still */
    FAKE_RUN_LATE,    /* until fake_device_let_go */
    FAKE_CLOSE_FAILS,
} fake_fault;

typedef struct fake_device {
    fake_fault fault;
    uint64_t fault_at; /* of faults of starts: the sequence number from which on */
    bool abort_hangs;  /* until fake_device_let_go */
    bool close_hangs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool let_go;
    int aborting; /* threads inside `abort` or `close` */
    void *comm;   /* the newest, so that one which nobody may free is not lost */
    void *op;
    atomic_int opened; /* how often the table's functions were called */
    atomic_int aborted;
    atomic_int closed;
    atomic_int released;
    atomic_int ops; /* alive */
    atomic_int groups;
    atomic_int allocated;
} fake_device;

/* What a rank's options name: backend_user is the rank's fake_device. */
extern const coll_backend fake_backend;

void fake_device_init(fake_device *device);
/* Waits for calls that fake_device_let_go has set free. */
void fake_device_fini(fake_device *device);
/* What is late or hangs goes on. */
void fake_device_let_go(fake_device *device);

#endif
