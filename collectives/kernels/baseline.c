/* The kernels for any processor. kernels.c chooses them at run time where nothing better runs. */
#include "kernels/tables.h"

#define KERNELS_NAME coll_kernels_baseline
#include "kernels/body.h"
