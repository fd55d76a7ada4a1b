/* Evidence that instances are gone: what a vendor's driver wrote, checked field by field.
 *
 *   {"evidence": "ringfence/termination/v1", "vendor": "runpod", "vendor_account": "…", "jti": "…",
 *    "describe": [{"at": TIME, "instance_id": "…", "name": "…jti…", "status": "terminated"}],
 *    "list": {"at": TIME, "instances": [{"instance_id": "…", "name": "…"}]}}
 *
 * vendor_account is the account of the vendor for which the driver spoke: the one where the ledger knows the
 * instances to be. What another account does not have is not gone. describe has one answer for each instance that the token allows, attached ones among them all: its
 * id, the name that carries the jti, and "terminated" or "not-found". list is the vendor's whole list, taken after that: no
 * instance of the reservation and no name with the jti may be on it. An "answer" beside these holds
 * the vendor's own text and is not looked at. Times are RFC 3339, after the last redemption and
 * not in the future. Unknown and duplicate keys are refused. Pure. */
#ifndef BUDGET_EVIDENCE_H
#define BUDGET_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/ledger.h"

enum {
    EVIDENCE_CLOCK_SLACK_S = 300
}; /* a driver's or a vendor's clock may be ahead of ours by this */

typedef struct evidence_expected {
    const char *vendor;
    const char *jti;
    const char
        *vendor_account; /* where its instances are; "": not known, and nothing proves their end */
    int64_t instances_max; /* of the token: so many must be described */
    size_t instance_count; /* attached ones; 0: any */
    char instances[BUDGET_INSTANCES_MAX][BUDGET_INSTANCE_BYTES];
    int64_t after_s; /* wall time, seconds: the last redemption, else the authorization; or the end
                      * that was proven before, and refuted */
    int64_t now_s;
} evidence_expected;

/* BASE_OK: proof. BASE_ERR_INVALID: none; *why names the field. */
BASE_MUST_CHECK base_status evidence_check(const void *bytes, size_t size_bytes,
                                           const evidence_expected *expected, base_error *why);

/* Does it say of this instance that it is gone? Of evidence that was proof when it came. */
bool evidence_describes(const void *bytes, size_t size_bytes, const char *instance_id);

/* Is it a driver's, whatever it says? One that is cut off is, too. */
bool evidence_is_drivers(const void *bytes, size_t size_bytes);

#endif
