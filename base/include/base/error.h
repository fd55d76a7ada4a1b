/* Status codes, and the error that explains them. libcoll has its own (coll/status.h).
 *
 * Every function that can fail returns a base_status: BASE_OK (0) or a negative code. The caller
 * must check it. The message is written into the caller's base_error, which is the last argument
 * and may be NULL.
 *
 * A base_error is plain data. Threads that share one need a lock of their own. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#if defined(__GNUC__)
#define BASE_MUST_CHECK __attribute__((warn_unused_result))
#define BASE_MAY_ALIAS  __attribute__((may_alias))
#else
#define BASE_MUST_CHECK
#define BASE_MAY_ALIAS
#endif

typedef enum base_status {
    BASE_OK = 0,
    BASE_ERR_INVALID = -1,     /* an argument, a file or a message is not as it must be */
    BASE_ERR_IO = -2,          /* the system refused: errno is in the message */
    BASE_ERR_MEMORY = -3,      /* out of memory */
    BASE_ERR_TIMEOUT = -4,     /* the deadline passed */
    BASE_ERR_ABORTED = -5,     /* somebody else ended the job */
    BASE_ERR_MISMATCH = -6,    /* ranks disagree on an operation */
    BASE_ERR_PEER = -7,        /* a peer is gone or broke the protocol */
    BASE_ERR_LIMIT = -8,       /* a named limit would be passed */
    BASE_ERR_UNSUPPORTED = -9, /* known, but not available here */
    BASE_ERR_STATE = -10,      /* called at the wrong time: a failed communicator, say */
    BASE_ERR_AUTH = -11,       /* a wrong or missing key */
    BASE_ERR_BUSY = -12,       /* taken by another process */
    BASE_ERR_NOTFOUND = -13,   /* no such file, key, tensor */
} base_status;

enum {
    BASE_ERROR_MESSAGE_BYTES = 1024, /* with the final NUL */
};

/* libcoll's error has the same layout, and stands for it. */
typedef struct BASE_MAY_ALIAS base_error {
    base_status status;
    char message[BASE_ERROR_MESSAGE_BYTES];
} base_error;

#endif
