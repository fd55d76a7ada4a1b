/* Limits of the service. docs/WIRE.md explains them. */
#ifndef BUDGET_SERVER_LIMITS_H
#define BUDGET_SERVER_LIMITS_H

enum {
    SERVICE_BATCH_MAX = 256,            /* requests that share one commit */
    SERVICE_FRAMES_MAX = 1,             /* of a message, its routing id not counted */
    SERVICE_CONNECTIONS_MAX = 256,      /* per endpoint; then the oldest silent one is closed */
    SERVICE_CONNECTIONS_KEY_MAX = 32,   /* that one client asks over; a further one is closed */
    SERVICE_ROUTING_ID_BYTES = 8,       /* ZeroMQ makes 5 */
    SERVICE_FLOOD_BYTES = 64 << 20,     /* memory above the start's: connections are closed */
    SERVICE_FLOOD_CHECK_MS = 100,       /* how often that is looked at while there are any */
    SERVICE_IDLE_MS = 1000,             /* the loop looks around at least so often */
    SERVICE_ITEM_KEEP_BYTES = 64 << 10, /* an answer's buffer that is kept for the next */
    SERVICE_STATUS_ACCOUNTS_MAX = 1000,
    SERVICE_STATUS_ALARMS_MAX = 100,
    SERVICE_DIFFERENCES_MAX = 1000,
    SERVICE_BILL_NAMES_MAX = 16,       /* labels, and instances, that an alarm of a bill has */
    SERVICE_PAGE_INSTANCES_MAX = 2000, /* named in a page of authorizations, which ends soon then */
    SERVICE_USAGE_ALARM_PERCENT = 80,  /* of a cap */
    SERVICE_USAGE_MAX = 32,            /* accounts notified of at one look */
    SERVICE_EXPIRE_MAX = 64,           /* deadlines handled, and alarms raised, at one look */
    SERVICE_ALARM_AGAIN_S = 15 * 60,   /* until the end is proven, so often */
    SERVICE_UNHEARD_MAX = 256,         /* alarms of bills that the hook has not heard */
    SERVICE_FAILURE_AGAIN_S = 60,      /* the same failure is logged so often at most */
    SERVICE_HOOK_S = 60,               /* the policy's hook may take so long for an alarm */
    SERVICE_NBF_LEEWAY_S = 60,         /* a rented host's clock may be behind by so much */
    SERVICE_AUDITS_WAITING_MAX = 4,
    SERVICE_AUDIT_SLICE_ROWS = 200,      /* walked between two batches: a few milliseconds */
    SERVICE_AUDIT_FIRST_ROWS = 10000,    /* a slice of the audit at the start */
    SERVICE_AUDIT_BYTES_MAX = 256 << 20, /* of memory that counts as an audit's */
};

#endif
