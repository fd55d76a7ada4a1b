/* The cached figures of the cost model: a small text file. It is used again only where its key,
 * which says what was measured, is the same. */
#ifndef COLL_SRC_TUNE_FILE_H
#define COLL_SRC_TUNE_FILE_H

#include "coll/tune.h"

enum { COLL_TUNE_KEY_BYTES = 256, COLL_TUNE_FIGURES = sizeof(coll_costs) / sizeof(double) };

_Static_assert(sizeof(coll_costs) == 8 * sizeof(double), "costs are shared, and kept, as doubles");

/* "transport=tcp ranks=4 hosts=2 kernels=avx2 auth=mac interface=eth1 host=a": what figures depend
 * on. The interface is "-" if the options leave it open. */
void coll_tune_key(const coll_comm *comm, const coll_context_options *options,
                   char key[COLL_TUNE_KEY_BYTES]);

/* *found: the file is there, and of this key. A file that is none of ours is COLL_ERR_INVALID, and
 * is never written over. Bytes are checked: figures are finite and not negative. */
COLL_MUST_CHECK coll_status coll_tune_file_read(const char *path, const char *key,
                                                coll_costs *costs, bool *found, coll_error *reterr);

/* The same of the file's text, with a final NUL; for tests and fuzzers. */
COLL_MUST_CHECK coll_status coll_tune_file_parse(const char *text, const char *key,
                                                 coll_costs *costs, bool *found,
                                                 coll_error *reterr);

/* Written to a temporary name and renamed. */
COLL_MUST_CHECK coll_status coll_tune_file_write(const char *path, const char *key,
                                                 const coll_costs *costs, coll_error *reterr);

#endif
