/* Calls of role request: authorize a job, attach its instances, report their end, void. Called
 * by the commands of cli/ and by the launcher. */

#include "client_impl.h"

char *budget_wire_text(const char *text)
{
    return (char *)(uintptr_t)(text != NULL ? text : "");
}

static bool grant_from(const Ringfence__Budget__Granted *from, budget_grant *grant)
{
    *grant = (budget_grant){
        .cap_usd_micro = from->cap_usd_micro,
        .remaining_before_usd_micro = from->remaining_before_usd_micro,
        .remaining_after_usd_micro = from->remaining_after_usd_micro,
        .max_usd_micro = from->max_usd_micro,
    };
    return budget_copy_text(grant->label, sizeof grant->label, from->label) &&
           budget_copy_text(grant->jti, sizeof grant->jti, from->jti) &&
           budget_copy_text(grant->token, sizeof grant->token, from->token) &&
           budget_copy_text(grant->kid, sizeof grant->kid, from->kid) &&
           budget_copy_text(grant->account, sizeof grant->account, from->account);
}

budget_verdict budget_authorize(budget_client *client, const budget_claims *asked,
                                budget_grant *grant, base_error *why)
{
    Ringfence__Budget__Authorize body;
    budget_wire_response *response = NULL;
    budget_shape_write(&budget_ask_shape, asked, &body.base);
    const budget_verdict verdict =
        budget_ask_service(client, &body.base, BUDGET_RESPONSE(GRANTED), &response, why);
    if (verdict != BUDGET_GRANTED) {
        return verdict;
    }
    return grant_from(response->granted, grant) ? BUDGET_GRANTED : budget_broken_answer(why);
}

budget_verdict budget_attach(budget_client *client, const char *label, const char *instance_id,
                             const char *replaces, const char *vendor_account, base_error *why)
{
    Ringfence__Budget__Attach body = RINGFENCE__BUDGET__ATTACH__INIT;
    body.label = budget_wire_text(label);
    body.instance_id = budget_wire_text(instance_id);
    body.replaces = budget_wire_text(replaces);
    body.vendor_account = budget_wire_text(vendor_account);
    return budget_tell_service(client, &body.base, why);
}

budget_verdict budget_terminated(budget_client *client, const char *label, const void *evidence,
                                 size_t evidence_bytes, bool attested, base_error *why)
{
    Ringfence__Budget__Terminated body = RINGFENCE__BUDGET__TERMINATED__INIT;
    body.label = budget_wire_text(label);
    body.evidence.data = (uint8_t *)(uintptr_t)evidence;
    body.evidence.len = evidence_bytes;
    body.attested = attested;
    return budget_tell_service(client, &body.base, why);
}

budget_verdict budget_void(budget_client *client, const char *label, base_error *why)
{
    Ringfence__Budget__Void body = RINGFENCE__BUDGET__VOID__INIT;
    body.label = budget_wire_text(label);
    return budget_tell_service(client, &body.base, why);
}
