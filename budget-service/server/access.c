/* The access check of every message: identity by the connection's key, role by the ledger. Called
 * by batch.c. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "budget/wire.h"
#include "service.h"

enum {
    REQUEST = 1u << BUDGET_ROLE_REQUEST,
    RECONCILE = 1u << BUDGET_ROLE_RECONCILE,
    ADMIN = 1u << BUDGET_ROLE_ADMIN,
    READERS = REQUEST | RECONCILE | ADMIN,
};

typedef struct rule {
    Ringfence__Budget__Request__BodyCase body;
    unsigned roles;
    service_handler *handler;
} rule;

#define BODY(name) RINGFENCE__BUDGET__REQUEST__BODY_##name

static const rule rules[] = {
    {BODY(AUTHORIZE), REQUEST | ADMIN, service_authorize},
    {BODY(ATTACH), REQUEST | ADMIN, service_attach},
    {BODY(TERMINATED), REQUEST | ADMIN, service_terminated},
    {BODY(VOID), REQUEST | ADMIN, service_void},
    {BODY(REMAINING), READERS, service_remaining},
    {BODY(TOTAL_SPENT), READERS, service_total_spent},
    {BODY(STATUS), READERS, service_status},
    {BODY(LIST), READERS, service_list},
    {BODY(ACCOUNT_LIST), READERS, service_account_list},
    {BODY(RECORD_ACTUAL), RECONCILE | ADMIN, service_record_actual},
    {BODY(RECONCILE), RECONCILE | ADMIN, service_reconcile},
    {BODY(EXPORT), RECONCILE | ADMIN, service_export},
    {BODY(AUDIT), RECONCILE | ADMIN, service_audit_begin},
    {BODY(ACCOUNT_CREATE), ADMIN, service_account_create},
    {BODY(ACCOUNT_SET_CAP), ADMIN, service_account_set_cap},
    {BODY(ACCOUNT_ACKNOWLEDGE), ADMIN, service_account_acknowledge},
    {BODY(CLIENT_ADD), ADMIN, service_client_add},
    {BODY(CLIENT_REVOKE), ADMIN, service_client_revoke},
    {BODY(CLIENT_LIST), ADMIN, service_client_list},
    {BODY(CLOCK_REPAIR), ADMIN, service_clock_repair},
};

static const rule *find_rule(Ringfence__Budget__Request__BodyCase body)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].body == body) {
            return &rules[i];
        }
    }
    return NULL;
}

/* BLAKE2b-256 of what is asked: the body alone, without the request's id and what is remembered,
 * which differ from one try to the next. */
static void digest_body(budget_service *service, const Ringfence__Budget__Request *request,
                        uint8_t digest[BUDGET_DIGEST_BYTES])
{
    const uint32_t body_case = (uint32_t)request->body_case;
    const ProtobufCMessage *body = &request->authorize->base; /* whichever it is */
    crypto_generichash_state state;
    const size_t body_bytes = protobuf_c_message_pack(body, service->scratch);
    (void)crypto_generichash_init(&state, NULL, 0, BUDGET_DIGEST_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)&body_case, sizeof body_case);
    (void)crypto_generichash_update(&state, service->scratch, body_bytes);
    (void)crypto_generichash_final(&state, digest, BUDGET_DIGEST_BYTES);
}

/* BASE_OK with *handler NULL: the item holds the refusal. */
static base_status check_client(budget_service *service, const service_question *question,
                                budget_ledger_client *client, service_item *item,
                                service_handler **handler, base_error *reterr)
{
    char message[BUDGET_ANSWER_MESSAGE_BYTES];
    const Ringfence__Budget__Request *request = question->request;
    const rule *found = find_rule(request->body_case);
    const base_status status =
        budget_ledger_client_find(service->ledger, question->key, client, reterr);
    *handler = NULL;
    if (status == BASE_ERR_NOTFOUND || (status == BASE_OK && client->revoked)) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN,
                                   "this key has been revoked", reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    item->asker.identified = true;
    /* before the role: a refusal, too, says which ledger it is about */
    if (request->known_sequence != 0) {
        if (budget_ledger_remembers(service->ledger, request->known_sequence,
                                    request->known_head.data, NULL) != BASE_OK) {
            return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_BEHIND,
                                       "this ledger does not have the row that the client "
                                       "remembers: an old copy has been restored, or it is "
                                       "another ledger",
                                       reterr);
        }
        memcpy(item->asker.known_head, request->known_head.data, sizeof item->asker.known_head);
        item->asker.remembered = true;
    }
    if (found == NULL) {
        (void)snprintf(message, sizeof message, "%s is not asked at this endpoint",
                       budget_request_name(request));
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN, message,
                                   reterr);
    }
    if ((found->roles & (1u << client->role)) == 0) {
        (void)snprintf(message, sizeof message,
                       "client %s has the role %s, which may not ask %s: take "
                       "the key of one that may (--key)",
                       client->name, budget_role_name(client->role), budget_request_name(request));
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN, message,
                                   reterr);
    }
    *handler = found->handler;
    return BASE_OK;
}

/* A ledger that does not audit grants nothing: no money, no start of a job, no creation permit. */
static bool grants(const Ringfence__Budget__Request *request)
{
    return request->body_case == BODY(AUTHORIZE) || request->body_case == BODY(REDEEM);
}

static base_status refuse_halted(const budget_service *service, service_item *item,
                                 base_error *reterr)
{
    char message[BUDGET_TEXT_BYTES_MAX + 1];
    (void)snprintf(message, sizeof message,
                   "the ledger does not audit (%.200s): nothing is granted until an admin has "
                   "looked and starts the service with --accept-audit %s",
                   service->finding, service->audit_digest);
    return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED, message, reterr);
}

/* *refused: the item holds why nothing is granted now. */
static base_status check_granting(budget_service *service, service_item *item, bool *refused,
                                  base_error *reterr)
{
    base_error why = {0};
    *refused = true;
    if (service_halted(service)) {
        return refuse_halted(service, item, reterr);
    }
    if (service_keyring_check(service, &why) != BASE_OK) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED, why.message,
                                   reterr);
    }
    *refused = false;
    return BASE_OK;
}

static base_status check_redeemer(const service_question *question, service_item *item,
                                  service_handler **handler, base_error *reterr)
{
    *handler = NULL;
    if (question->request->body_case != BODY(REDEEM)) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN,
                                   "this endpoint redeems tokens, and does nothing else", reterr);
    }
    *handler = service_redeem;
    return BASE_OK;
}

base_status service_access_check(budget_service *service, const char *user_id,
                                 const Ringfence__Budget__Request *request, service_item *item,
                                 base_error *reterr)
{
    uint8_t key[PROTO_KEY_BYTES];
    budget_ledger_client client = {0};
    service_handler *handler = NULL;
    service_question question = {.request = request, .key = key};
    if (!service_admission_key(user_id, key)) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN,
                                   "a message without an owner", reterr);
    }
    base_status status;
    if (item->asker.endpoint == SERVICE_ENDPOINT_REDEEM) {
        status = check_redeemer(&question, item, &handler, reterr);
    } else {
        status = check_client(service, &question, &client, item, &handler, reterr);
        question.client = &client;
        question.caller.client = client.id;
        question.caller.request_id = request->request_id;
    }
    if (status != BASE_OK || handler == NULL) {
        return status;
    }
    if (grants(request)) {
        bool refused = false;
        status = check_granting(service, item, &refused, reterr);
        if (status != BASE_OK || refused) {
            return status;
        }
    }
    digest_body(service, request, question.caller.body_blake2b256);
    base_error error = {0};
    status = handler(service, &question, item, &error);
    if (status == BASE_ERR_INVALID) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED, error.message,
                                   reterr);
    }
    return status == BASE_OK ? BASE_OK : base_fail(reterr, status, "%s", error.message);
}
