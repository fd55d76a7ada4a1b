/* Limits that more than one directory uses. Each directory also has a limits.h of its own. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

enum {
    BASE_RANKS_MAX = 4096,          /* ranks in one job */
    BASE_COLL_RANKS_MAX = 64,       /* in a job whose ranks all take part in collectives */
    BASE_PATH_BYTES = 4096,         /* with the final NUL, as PATH_MAX */
    BASE_HOSTNAME_BYTES = 256,      /* with the final NUL */
    BASE_JSON_LINE_BYTES = 1 << 20, /* one line of JSONL */
};

#endif
