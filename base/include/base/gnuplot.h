/* Runs gnuplot on a script, without a shell. Everything that draws pictures uses this. Blocks. */
#ifndef BASE_GNUPLOT_H
#define BASE_GNUPLOT_H

#include <stdint.h>

#include "base/status.h"

typedef struct base_gnuplot {
    int directory_fd;   /* gnuplot runs there; -1: in the current directory */
    const char *script; /* a file, which gnuplot opens; NULL: what script_fd has */
    int script_fd;      /* read from its current position; not looked at with a script */
    int64_t timeout_ns; /* then it is ended; BASE_NO_DEADLINE: never */
} base_gnuplot;

/* BASE_ERR_NOTFOUND: there is no gnuplot here. BASE_ERR_TIMEOUT: it was ended. BASE_ERR_IO: it
 * failed; the message has the last line of what it printed on stderr. */
BASE_MUST_CHECK base_status base_gnuplot_run(const base_gnuplot *run, base_error *reterr);

#endif
