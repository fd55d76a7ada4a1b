/* Status codes and errors of libcoll.
 *
 * Every function that can fail returns a coll_status: COLL_OK (0), or a negative code, which the
 * caller must look at. The message is in a coll_error of the caller's, which is passed last and may
 * be NULL. After a success its contents say nothing.
 *
 * A coll_error is plain data: threads that share one need a lock of their own. */
#ifndef COLL_STATUS_H
#define COLL_STATUS_H

#if defined(__GNUC__)
#define COLL_MUST_CHECK __attribute__((warn_unused_result))
#define COLL_MAY_ALIAS  __attribute__((may_alias))
#pragma GCC visibility push(default)
#else
#define COLL_MUST_CHECK
#define COLL_MAY_ALIAS
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum coll_status {
    COLL_OK = 0,
    COLL_ERR_INVALID = -1,     /* an argument, a file or a message does not say what it must */
    COLL_ERR_IO = -2,          /* the system refused: errno is in the message */
    COLL_ERR_MEMORY = -3,      /* out of memory */
    COLL_ERR_TIMEOUT = -4,     /* the deadline passed */
    COLL_ERR_ABORTED = -5,     /* somebody else ended the job */
    COLL_ERR_MISMATCH = -6,    /* ranks disagree on an operation */
    COLL_ERR_PEER = -7,        /* a peer is gone or broke the protocol */
    COLL_ERR_LIMIT = -8,       /* a named limit would be passed */
    COLL_ERR_UNSUPPORTED = -9, /* known, but not to be had here */
    COLL_ERR_STATE = -10,      /* called at the wrong time: a failed communicator, say */
    COLL_ERR_AUTH = -11,       /* a wrong or missing key */
    COLL_ERR_BUSY = -12,       /* taken by another process */
    COLL_ERR_NOTFOUND = -13,   /* no such file, key, name */
} coll_status;

enum {
    COLL_ERROR_MESSAGE_BYTES = 1024, /* with the final NUL */
};

/* A struct of the same layout may stand for it, as another library's own error does. */
typedef struct COLL_MAY_ALIAS coll_error {
    coll_status status;
    char message[COLL_ERROR_MESSAGE_BYTES];
} coll_error;

/* A status as one word, "timeout" say; never NULL. */
const char *coll_status_name(coll_status status);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
