/* Short digests of the flags of a job, one for each, by which a head finds which of its flags an agent
 * was given otherwise.
 *
 * They are in the order of proto_job_fields, without the fields that each host has for itself, and end
 * with one of the prompts and one of the program. Launchers of one build have the same order. */
#ifndef LAUNCH_FLAG_DIGESTS_H
#define LAUNCH_FLAG_DIGESTS_H

#include "launch/options.h"

/* Takes the digests of options->job, its prompts and its program. BASE_ERR_LIMIT: the command line is
 * too long. */
BASE_MUST_CHECK base_status launch_flag_digests_take(launch_options *options, base_error *reterr);

/* An agent has sent all of its digests, or only its program's. BASE_ERR_INVALID: they are not the
 * head's. The message names the first flag that
 * differs, and what `job`, the head's, has for it. */
BASE_MUST_CHECK base_status launch_flag_digests_compare(const launch_flag_digests *head,
                                                        const proto_job *job, const void *agents,
                                                        size_t agents_bytes, base_error *reterr);

#endif
