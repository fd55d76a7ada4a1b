/* Names of types and reductions in messages; "?" for a value that is none. */
#ifndef COLL_SRC_NAMES_H
#define COLL_SRC_NAMES_H

#include "coll/coll.h"

const char *coll_type_name(int type);
const char *coll_reduce_name(int reduce);

#endif
