/* The tables of the shared structs and their messages, and how a record becomes a message and back.
 * Called by the client, the service, and wire/charge.c. */
#include "budget/shape.h"

#include <budget.pb-c.h>
#include <string.h>

#include "budget/charge.h"

typedef enum field_kind {
    TEXT,
    INT, /* int64_t */
    BOOL,
    BYTES, /* of a fixed size */
    TEXTS, /* a list */
} field_kind;

typedef struct shape_row {
    field_kind kind;
    size_t field;  /* its offset in the message */
    size_t member; /* its offset in the record */
    size_t size_bytes;
    size_t count; /* TEXTS: the offset of their number in the message */
} shape_row;

struct budget_shape {
    const ProtobufCMessageDescriptor *message;
    const shape_row *rows;
    size_t count;
};

#define ROW(kind, message, field, type, member)                                                    \
    {                                                                                              \
        kind, offsetof(Ringfence__Budget__##message, field), offsetof(type, member),               \
            sizeof(((type *)0)->member), 0                                                         \
    }
#define TEXTS_ROW(message, field, type, member)                                                    \
    {                                                                                              \
        TEXTS, offsetof(Ringfence__Budget__##message, field), offsetof(type, member),              \
            sizeof(((type *)0)->member), offsetof(Ringfence__Budget__##message, n_##field)         \
    }
#define SHAPE(message, rows)                                                                       \
    {                                                                                              \
        &ringfence__budget__##message##__descriptor, rows, sizeof(rows) / sizeof((rows)[0])        \
    }

#define ACCOUNT(kind, name) ROW(kind, Account, name, budget_account, name)
static const shape_row account_rows[] = {
    ACCOUNT(TEXT, name),
    ACCOUNT(INT, cap_usd_micro),
    ACCOUNT(INT, posted_usd_micro),
    ACCOUNT(INT, reserved_usd_micro),
    ACCOUNT(INT, remaining_usd_micro),
    ACCOUNT(BOOL, frozen),
};
const budget_shape budget_account_shape = SHAPE(account, account_rows);

#define ENTRY(kind, name) ROW(kind, Entry, name, budget_entry, name)
static const shape_row entry_rows[] = {
    ENTRY(TEXT, label),
    ENTRY(TEXT, account),
    ENTRY(TEXT, jti),
    ENTRY(TEXT, state),
    ENTRY(INT, reserved_usd_micro),
    ENTRY(INT, actual_usd_micro),
    ENTRY(INT, credit_usd_micro),
    ENTRY(BOOL, actual_known),
    ENTRY(TEXT, mode),
    ENTRY(TEXT, vendor),
    ENTRY(TEXT, vendor_account),
    ENTRY(TEXT, instance_type),
    ENTRY(TEXT, instance_id),
    ENTRY(INT, authorized_at),
    ENTRY(INT, redeemed_at),
    ENTRY(INT, deadline),
    ENTRY(INT, terminated_at),
    ENTRY(INT, read_at),
    ENTRY(BOOL, attested),
    ENTRY(TEXT, evidence),
    ENTRY(TEXT, client),
    ENTRY(INT, authorized_usd_micro),
    ENTRY(INT, instances),
    ENTRY(INT, began_at),
    ENTRY(INT, max_price_usd_micro_per_hour),
    ENTRY(BOOL, price_derived),
    TEXTS_ROW(Entry, instance_ids, budget_entry, instance_ids),
};
const budget_shape budget_entry_shape = SHAPE(entry, entry_rows);

#define DIFFERENCE(kind, name) ROW(kind, Difference, name, budget_difference, name)
static const shape_row difference_rows[] = {
    DIFFERENCE(TEXT, kind),    DIFFERENCE(TEXT, label),           DIFFERENCE(TEXT, instance_id),
    DIFFERENCE(TEXT, line_id), DIFFERENCE(INT, ledger_usd_micro), DIFFERENCE(INT, bill_usd_micro),
    DIFFERENCE(TEXT, account), DIFFERENCE(TEXT, message),
};
const budget_shape budget_difference_shape = SHAPE(difference, difference_rows);

#define CHARGE(kind, field, member) ROW(kind, BillLine, field, budget_charge, member)
static const shape_row charge_rows[] = {
    CHARGE(TEXT, line_id, line_id),
    CHARGE(TEXT, label, label),
    CHARGE(TEXT, instance_id, instance_id),
    CHARGE(TEXT, vendor, vendor),
    CHARGE(INT, usd_micro, usd_micro),
    CHARGE(INT, at, at_s),
    CHARGE(INT, until, until_s),
};
const budget_shape budget_charge_shape = SHAPE(bill_line, charge_rows);

#define ASK(kind, field, member) ROW(kind, Authorize, field, budget_claims, member)
static const shape_row ask_rows[] = {
    ASK(TEXT, label, label),
    ASK(TEXT, account, account),
    ASK(INT, amount_usd_micro, max_usd_micro),
    ASK(TEXT, mode, mode),
    ASK(INT, world_size, world_size),
    ASK(BYTES, job_blake2b256, job_blake2b256),
    ASK(TEXT, vendor, vendor),
    ASK(TEXT, instance_type, instance_type),
    ASK(INT, instances, instances),
    ASK(INT, gpus, gpus),
    ASK(TEXT, tier, tier),
    ASK(TEXT, machine_id, machine_id),
    ASK(INT, max_price_usd_micro_per_hour, max_price_usd_micro_per_hour),
    ASK(INT, max_seconds, max_seconds),
    ASK(INT, max_attempts, max_attempts),
};
const budget_shape budget_ask_shape = SHAPE(authorize, ask_rows);

void budget_shape_write(const budget_shape *shape, const void *record, ProtobufCMessage *message)
{
    protobuf_c_message_init(shape->message, message);
    for (size_t i = 0; i < shape->count; i++) {
        const shape_row *row = &shape->rows[i];
        const char *member = (const char *)record + row->member;
        char *borrowed = (char *)(uintptr_t)member; /* protobuf-c changes nothing that it packs */
        void *field = (char *)message + row->field;
        switch (row->kind) {
        case TEXT:
            *(char **)field = borrowed;
            break;
        case INT:
            *(int64_t *)field = *(const int64_t *)(const void *)member;
            break;
        case BOOL:
            *(protobuf_c_boolean *)field = *(const bool *)(const void *)member;
            break;
        case BYTES:
            *(ProtobufCBinaryData *)field =
                (ProtobufCBinaryData){.len = row->size_bytes, .data = (uint8_t *)borrowed};
            break;
        case TEXTS: {
            const budget_texts *list = (const void *)member;
            *(char ***)field = list->texts;
            *(size_t *)(void *)((char *)message + row->count) = list->count;
            break;
        }
        }
    }
}

static bool read_text(const char *text, char *member, size_t size_bytes)
{
    const size_t length = strlen(text);
    if (length >= size_bytes) {
        return false;
    }
    memcpy(member, text, length + 1);
    return true;
}

static bool read_bytes(const ProtobufCBinaryData *bytes, void *member, size_t size_bytes)
{
    if (bytes->len != size_bytes) {
        return false;
    }
    memcpy(member, bytes->data, size_bytes);
    return true;
}

bool budget_shape_read(const budget_shape *shape, const ProtobufCMessage *message, void *record)
{
    bool good = true;
    for (size_t i = 0; i < shape->count && good; i++) {
        const shape_row *row = &shape->rows[i];
        void *member = (char *)record + row->member;
        const void *field = (const char *)message + row->field;
        switch (row->kind) {
        case TEXT:
            good = read_text(*(char *const *)field, member, row->size_bytes);
            break;
        case INT:
            *(int64_t *)member = *(const int64_t *)field;
            break;
        case BOOL:
            *(bool *)member = *(const protobuf_c_boolean *)field != 0;
            break;
        case BYTES:
            good = read_bytes(field, member, row->size_bytes);
            break;
        case TEXTS:
            *(budget_texts *)member = (budget_texts){
                .count = *(const size_t *)(const void *)((const char *)message + row->count),
                .texts = *(char **const *)field};
            break;
        }
    }
    return good;
}
