/* Opens a client, and asks one question with it. Called by the launcher and the commands of cli/,
 * and by the other files here for each question. */
#include "budget/client.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "budget/wire.h"
#include "client_impl.h"
#include "proto/body.h"

enum {
    REQUEST_ID_RANDOM_BYTES = 16,
    TRANSIENT_TRIES_MAX = 5,
    SMALL_REQUEST_BYTES = 4096,
    PAGES_MAX = 1000000,
};

/* ringfence/NAME in the user's state; BASE_ERR_NOTFOUND, with `missing`: nothing says where that
 * is. */
static base_status state_path(const char *name, const char *missing, char path[BASE_PATH_BYTES],
                              base_error *reterr)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    const bool has_state = state != NULL && state[0] == '/';
    if (!has_state && (home == NULL || home[0] != '/')) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "%s", missing);
    }
    const char *below = has_state ? state : home;
    const int length = snprintf(path, BASE_PATH_BYTES, "%s%s/ringfence/%s", below,
                                has_state ? "" : "/.local/state", name);
    return length < BASE_PATH_BYTES
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "%s: too long a path", below);
}

base_status budget_default_dir(char dir[BASE_PATH_BYTES], base_error *reterr)
{
    const char *chosen = getenv("BUDGET_SERVICE_DIR");
    if (chosen != NULL && chosen[0] != '\0') {
        return snprintf(dir, BASE_PATH_BYTES, "%s", chosen) < BASE_PATH_BYTES
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_LIMIT, "BUDGET_SERVICE_DIR is too long a path");
    }
    return state_path("budget",
                      "no --dir, and none of BUDGET_SERVICE_DIR, XDG_STATE_HOME and HOME is set",
                      dir, reterr);
}

void budget_fresh_request_id(char request_id[BUDGET_REQUEST_ID_BYTES])
{
    uint8_t random[REQUEST_ID_RANDOM_BYTES];
    randombytes_buf(random, sizeof random);
    (void)sodium_bin2hex(request_id, BUDGET_REQUEST_ID_BYTES, random, sizeof random);
}

/* KEY_FILE.seen, or one in the user's state where that directory cannot be written. */
static base_status seen_path(const char *key_file, char path[BASE_PATH_BYTES], base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    char state[BASE_PATH_BYTES];
    uint8_t digest[BUDGET_DIGEST_BYTES];
    char name[64];
    (void)snprintf(directory, sizeof directory, "%s", key_file);
    if (access(dirname(directory), W_OK) == 0) {
        const int length = snprintf(path, BASE_PATH_BYTES, "%s.seen", key_file);
        return length < BASE_PATH_BYTES
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_LIMIT, "%s: too long a path", key_file);
    }
    base_status status = state_path(
        "seen", "nowhere to remember the ledger's newest row: set XDG_STATE_HOME", state, reterr);
    if (status == BASE_OK) {
        status = base_mkdirs(state, reterr);
    }
    if (status == BASE_OK) {
        (void)crypto_generichash(digest, sizeof digest, (const uint8_t *)key_file, strlen(key_file),
                                 NULL, 0);
        (void)sodium_bin2hex(name, 33, digest, 16);
        status = base_path_join(state, name, path, reterr);
    }
    return status;
}

/* Everything that an open client is made from. */
typedef struct places {
    char dir[BASE_PATH_BYTES];
    char key_file[BASE_PATH_BYTES];
    char endpoint[BASE_PATH_BYTES];
    char seen_file[BASE_PATH_BYTES];
} places;

static base_status find_endpoint(const budget_client_options *options, places *found,
                                 base_error *reterr)
{
    budget_service_address address;
    base_error unread;
    if (options->endpoint != NULL) {
        (void)snprintf(found->endpoint, sizeof found->endpoint, "%s", options->endpoint);
        return BASE_OK;
    }
    if (budget_service_address_read(found->dir, &address, &unread) == BASE_OK) {
        (void)snprintf(found->endpoint, sizeof found->endpoint, "%s", address.endpoint);
        return BASE_OK;
    }
    const int length =
        snprintf(found->endpoint, sizeof found->endpoint, "ipc://%s/run/service.sock", found->dir);
    return length < (int)sizeof found->endpoint
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "%s: too long a path", found->dir);
}

static base_status find_places(const budget_client_options *options, places *found,
                               base_error *reterr)
{
    char name[BUDGET_NAME_BYTES + 16];
    base_status status = BASE_OK;
    if (options->dir != NULL) {
        (void)snprintf(found->dir, sizeof found->dir, "%s", options->dir);
    } else {
        status = budget_default_dir(found->dir, reterr);
    }
    if (status == BASE_OK && options->key_file != NULL) {
        (void)snprintf(found->key_file, sizeof found->key_file, "%s", options->key_file);
    } else if (status == BASE_OK) {
        (void)snprintf(name, sizeof name, "clients/%s.key",
                       options->key_name != NULL ? options->key_name : "request");
        status = base_path_join(found->dir, name, found->key_file, reterr);
    }
    if (status == BASE_OK && access(found->key_file, F_OK) != 0 && errno == ENOENT) {
        status = base_fail(reterr, BASE_ERR_NOTFOUND,
                           "%s is not there: budget-service init makes it, and BUDGET_SERVICE_DIR "
                           "says in which directory",
                           found->key_file);
    }
    if (status == BASE_OK) {
        status = find_endpoint(options, found, reterr);
    }
    if (status == BASE_OK && options->seen_file != NULL) {
        (void)snprintf(found->seen_file, sizeof found->seen_file, "%s", options->seen_file);
    } else if (status == BASE_OK) {
        status = seen_path(found->key_file, found->seen_file, reterr);
    }
    return status;
}

base_status budget_client_open(const budget_client_options *options, budget_client **client,
                               base_error *reterr)
{
    budget_client_key key = {0};
    places *found = calloc(1, sizeof *found);
    budget_client *made = calloc(1, sizeof *made);
    base_status status = BASE_OK;
    if (found == NULL || made == NULL) {
        free(found);
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a client");
    }
    made->seen.fd = -1;
    made->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : BUDGET_CLIENT_TIMEOUT_MS;
    status = budget_crypto_init(reterr);
    if (status == BASE_OK) {
        status = find_places(options, found, reterr);
    }
    if (status == BASE_OK) {
        status = budget_client_key_read(found->key_file, &key, reterr);
    }
    if (status == BASE_OK) {
        status = budget_seen_open(found->seen_file, &made->seen, reterr);
    }
    if (status == BASE_OK) {
        status = budget_link_open(&made->link, found->endpoint, &key.keys, key.service_public_key,
                                  reterr);
    }
    proto_wipe(&key, sizeof key);
    free(found);
    if (status != BASE_OK) {
        budget_client_close(made);
        return status;
    }
    *client = made;
    return BASE_OK;
}

void budget_client_close(budget_client *client)
{
    if (client != NULL) {
        budget_link_close(&client->link);
        budget_seen_close(&client->seen);
        free(client);
    }
}

base_status budget_client_set_request_id(budget_client *client, const char *request_id,
                                         base_error *reterr)
{
    if (!budget_request_id_ok(request_id)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a request id is 1 to %d letters, digits, '.', '_' or '-'",
                         BUDGET_REQUEST_ID_BYTES - 1);
    }
    (void)snprintf(client->next_request_id, sizeof client->next_request_id, "%s", request_id);
    return BASE_OK;
}

const char *budget_client_request_id(const budget_client *client)
{
    return client->request_id;
}

const budget_refusal *budget_client_refusal(const budget_client *client)
{
    return &client->refusal;
}

const budget_note *budget_client_note(const budget_client *client)
{
    return &client->note;
}

bool budget_copy_text(char *into, size_t into_bytes, const char *text)
{
    const size_t length = strlen(text);
    if (length >= into_bytes) {
        return false;
    }
    memcpy(into, text, length + 1);
    return true;
}

budget_verdict budget_broken_answer(base_error *why)
{
    (void)base_fail(why, BASE_ERR_PEER, "the service's answer does not make sense");
    return BUDGET_UNKNOWN;
}

budget_verdict budget_response_verdict(const budget_wire_response *response, base_error *why)
{
    const char *reason = response->reason[0] != '\0' ? response->reason : "refused";
    switch (response->verdict) {
    case RINGFENCE__BUDGET__VERDICT__VERDICT_DONE:
        return BUDGET_GRANTED;
    case RINGFENCE__BUDGET__VERDICT__VERDICT_EXCEEDED:
        (void)base_fail(why, BASE_ERR_LIMIT, "%s", reason);
        return BUDGET_EXCEEDED;
    case RINGFENCE__BUDGET__VERDICT__VERDICT_BAD_TOKEN:
        (void)base_fail(why, BASE_ERR_AUTH, "%s", reason);
        return BUDGET_BAD_TOKEN;
    case RINGFENCE__BUDGET__VERDICT__VERDICT_BEHIND:
        (void)base_fail(why, BASE_ERR_MISMATCH, "%s", reason);
        return BUDGET_BEHIND;
    case RINGFENCE__BUDGET__VERDICT__VERDICT_TRANSIENT:
        (void)base_fail(why, BASE_ERR_BUSY, "%s", reason);
        return BUDGET_FAILED;
    default:
        (void)base_fail(why, BASE_ERR_AUTH, "%s", reason);
        return BUDGET_REFUSED;
    }
}

/* Is the service's ledger the one that was known, gone on? */
static budget_verdict compare_rows(const budget_seen *seen, const budget_seen_row *known,
                                   const budget_wire_response *response, budget_seen_row *newest,
                                   base_error *why)
{
    const ProtobufCBinaryData *at_known =
        response->sequence == known->sequence ? &response->head : &response->known_head;
    newest->sequence = response->sequence;
    if (response->head.len == BUDGET_DIGEST_BYTES) {
        memcpy(newest->head, response->head.data, BUDGET_DIGEST_BYTES);
    }
    if (known->sequence == 0) {
        return BUDGET_GRANTED;
    }
    if (response->sequence >= known->sequence && at_known->len == BUDGET_DIGEST_BYTES &&
        memcmp(at_known->data, known->head, BUDGET_DIGEST_BYTES) == 0) {
        return BUDGET_GRANTED;
    }
    (void)base_fail(why, BASE_ERR_MISMATCH,
                    "the service's ledger (row %" PRIu64 ") does not have row %" PRIu64
                    " that this client has seen: an old copy has been restored, or it is another "
                    "ledger; " BUDGET_SEEN_ADVICE " %s",
                    response->sequence, known->sequence, seen->path);
    return BUDGET_BEHIND;
}

/* What is granted must not be used by a client that would not notice if its row were lost. A full
 * disk may hide neither an alarm nor why the service refuses. */
static bool changes_something(const budget_wire_response *response)
{
    switch (response->body_case) {
    case BUDGET_RESPONSE(ACCOUNTS):
    case BUDGET_RESPONSE(AMOUNT):
    case BUDGET_RESPONSE(STATUS):
    case BUDGET_RESPONSE(ENTRIES):
    case BUDGET_RESPONSE(EVENTS):
    case BUDGET_RESPONSE(AUDITED):
    case BUDGET_RESPONSE(CLIENTS):
        return false;
    default:
        return true;
    }
}

/* One round: packs, asks, checks whose ledger it is, remembers the newest row. */
static budget_verdict ask_once(budget_client *client, ProtobufCMessage *body, int64_t deadline_ns,
                               budget_wire_response **response, base_error *why)
{
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    uint8_t small[SMALL_REQUEST_BYTES];
    budget_seen_row known;
    budget_seen_row newest = {0};
    if (budget_seen_read(&client->seen, &known, why) != BASE_OK) {
        return BUDGET_FAILED;
    }
    request.version = BUDGET_WIRE_VERSION;
    request.request_id = client->request_id;
    request.known_sequence = known.sequence;
    request.known_head.data = known.head;
    request.known_head.len = known.sequence != 0 ? sizeof known.head : 0;
    proto_set_body(&request.base, body);
    const size_t request_bytes = ringfence__budget__request__get_packed_size(&request);
    uint8_t *packed = request_bytes <= sizeof small ? small : malloc(request_bytes);
    if (packed == NULL || request_bytes > BUDGET_MESSAGE_BYTES_MAX) {
        (void)base_fail(why, BASE_ERR_LIMIT, "a question of %zu bytes: too large to ask",
                        request_bytes);
        free(packed != small ? packed : NULL);
        return BUDGET_FAILED;
    }
    (void)ringfence__budget__request__pack(&request, packed);
    const budget_question question = {.request = packed,
                                      .request_bytes = request_bytes,
                                      .request_id = client->request_id,
                                      .deadline_ns = deadline_ns};
    const budget_link_result result = budget_link_ask(&client->link, &question, response, why);
    free(packed != small ? packed : NULL);
    if (result != BUDGET_LINK_ANSWERED) {
        return result == BUDGET_LINK_NOT_DONE ? BUDGET_FAILED : BUDGET_UNKNOWN;
    }
    if ((*response)->sequence == 0) { /* refused before it was looked at */
        const budget_verdict verdict = budget_response_verdict(*response, why);
        return verdict == BUDGET_GRANTED ? budget_broken_answer(why) : verdict;
    }
    const budget_verdict same = compare_rows(&client->seen, &known, *response, &newest, why);
    if (same != BUDGET_GRANTED) {
        return same;
    }
    base_error unkept = {0};
    const base_status kept = budget_seen_update(&client->seen, &newest, &unkept);
    const budget_verdict verdict = budget_response_verdict(*response, why);
    if (kept != BASE_OK && verdict == BUDGET_GRANTED && changes_something(*response)) {
        (void)base_fail(why, kept, "%s", unkept.message);
        return BUDGET_UNKNOWN; /* the same id gets the answer again */
    }
    return verdict;
}

/* An answer that grants: what it says beside its body. */
static budget_note note_of(const budget_wire_response *response)
{
    budget_note note = {0};
    (void)snprintf(note.account, sizeof note.account, "%s", response->account);
    (void)snprintf(note.message, sizeof note.message, "%s", response->reason);
    if (response->run != NULL) {
        (void)snprintf(note.state, sizeof note.state, "%s", response->run->state);
        note.reserved_usd_micro = response->run->reserved_usd_micro;
        note.actual_usd_micro = response->run->actual_usd_micro;
        note.actual_known = response->run->actual_known != 0;
    }
    return note;
}

budget_verdict budget_ask_service(budget_client *client, ProtobufCMessage *body,
                                  Ringfence__Budget__Response__BodyCase answer_case,
                                  budget_wire_response **response, base_error *why)
{
    const int64_t deadline_ns = base_deadline_after_ns(client->timeout_ms * BASE_NS_PER_MS);
    budget_verdict verdict = BUDGET_FAILED;
    bool transient = true;
    if (client->next_request_id[0] != '\0') {
        memcpy(client->request_id, client->next_request_id, sizeof client->request_id);
        client->next_request_id[0] = '\0';
    } else {
        budget_fresh_request_id(client->request_id);
    }
    for (int i = 0; i < TRANSIENT_TRIES_MAX && transient; i++) {
        *response = NULL;
        verdict = ask_once(client, body, deadline_ns, response, why);
        transient = verdict == BUDGET_FAILED && *response != NULL &&
                    (*response)->verdict == RINGFENCE__BUDGET__VERDICT__VERDICT_TRANSIENT;
    }
    client->refusal = (budget_refusal){0};
    client->note = (budget_note){0};
    if (*response != NULL && verdict != BUDGET_GRANTED) {
        (void)snprintf(client->refusal.code, sizeof client->refusal.code, "%s", (*response)->code);
    }
    if (*response != NULL && verdict == BUDGET_EXCEEDED) {
        client->refusal.asked_usd_micro = (*response)->asked_usd_micro;
        client->refusal.left_usd_micro = (*response)->left_usd_micro;
        (void)snprintf(client->refusal.account, sizeof client->refusal.account, "%s",
                       (*response)->account);
    }
    if (verdict != BUDGET_GRANTED) {
        return verdict;
    }
    BASE_ASSERT(*response != NULL);
    client->note = note_of(*response);
    return (*response)->body_case == answer_case ? verdict : budget_broken_answer(why);
}

budget_verdict budget_tell_service(budget_client *client, ProtobufCMessage *body, base_error *why)
{
    budget_wire_response *response = NULL;
    return budget_ask_service(client, body, BUDGET_RESPONSE(_NOT_SET), &response, why);
}

bool budget_pages_next(budget_client *client, budget_pages *pages, base_error *why)
{
    if (pages->count > 0 && pages->next[0] == '\0') {
        return false; /* that was the last one */
    }
    if (pages->count == PAGES_MAX ||
        (pages->count > 0 && !budget_copy_text(pages->cursor, sizeof pages->cursor, pages->next))) {
        pages->verdict = budget_broken_answer(why);
        return false;
    }
    *pages->after = pages->cursor;
    pages->count++;
    pages->verdict =
        budget_ask_service(client, pages->body, pages->answer_case, &pages->response, why);
    return pages->verdict == BUDGET_GRANTED;
}
