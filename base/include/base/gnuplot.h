/* Runs gnuplot on a script, without a shell. Everything that draws pictures uses this. Blocks. */
#ifndef BASE_GNUPLOT_H
#define BASE_GNUPLOT_H

#include <stdint.h>
#include <stdio.h>

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

/* BASE_ERR_INVALID unless a picture may have this name, which ends with .svg or .png. */
BASE_MUST_CHECK base_status base_gnuplot_name_check(const char *path, base_error *reterr);

/* Begins a script whose picture is `path`, of that kind and of so many points. */
void base_gnuplot_put_head(FILE *script, const char *path, int width, int height);

typedef void base_gnuplot_write(FILE *script, const void *user);

/* Runs gnuplot on the script that `write` writes, for as long as it takes. Fails as base_gnuplot_run;
 * messages begin with "no plot" and the path. */
BASE_MUST_CHECK base_status base_gnuplot_draw(const char *path, base_gnuplot_write *write,
                                              const void *user, base_error *reterr);

#endif
