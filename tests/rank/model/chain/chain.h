/* A second family, for tests: what somebody who adds one writes. x = GELU(x·W + b) layer by layer,
 * a layer norm, an output matrix of its own. Here it only trains; checkpoints may carry along a tensor that
 * means nothing. */
#ifndef TEST_CHAIN_H
#define TEST_CHAIN_H

#include "model/family.h"

extern const rank_family chain_family;

#endif
