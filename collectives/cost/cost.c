/* The cost model: how many latencies, messages and bytes lie one after the other in each algorithm.
 * Called by op_init.c to choose an algorithm, by tune.c and by coll-simulate. docs/COLLECTIVES.md
 * explains the formulas.
 *
 * Bytes are those that one rank sends or receives, whichever is more. Between hosts they are those
 * of one host, because its ranks share the link out. */
#include "coll/tune.h"
#include "common/kinds.h"
#include "plan/plan.h"

enum { CHUNK_BYTES = 32 * 1024 }; /* of the pipelines */

/* The classes of links. */
enum { INSIDE, BETWEEN, CLASSES };

/* Everything is a multiple: of a latency, of a message, of the whole vector. */
typedef struct price {
    double latencies[CLASSES];
    double messages[CLASSES];
    double bytes[CLASSES];
    double reduced;
    double fill; /* chunks that pass before a pipeline is full */
} price;

/* The class of links between ranks that may be anywhere. */
static int farthest(const coll_layout *s)
{
    return s->hosts == 1 ? INSIDE : BETWEEN;
}

static int log2_up(int n)
{
    int log = 0;
    while (1 << log < n) {
        log++;
    }
    return log;
}

static bool is_power(int n)
{
    return (n & (n - 1)) == 0;
}

static double ratio(int a, int b)
{
    return (double)a / (double)b;
}

/* How many numbers below `end` have the bit `distance` not set. */
static int lower_below(int end, int distance)
{
    const int rest = end % (2 * distance);
    return end / (2 * distance) * distance + (rest < distance ? rest : distance);
}

/* How many ranks of the host that begins with `first` have their partner on another host. */
static int crossing_of(const coll_layout *s, int first, int distance)
{
    const int end = first + s->host_ranks_max < s->ranks ? first + s->host_ranks_max : s->ranks;
    const int pairs_end = end - distance; /* the lower of two that are both here is before */
    const int alone_from = first > s->ranks - distance ? first : s->ranks - distance;
    const int pairs =
        pairs_end > first ? lower_below(pairs_end, distance) - lower_below(first, distance) : 0;
    const int alone =
        alone_from < end ? lower_below(end, distance) - lower_below(alone_from, distance) : 0;
    return end - first - 2 * pairs - alone;
}

/* How many ranks of one host, at most, have their partner of a round on another host. A rank's
 * partner is the one whose number differs in bit `round`; the last ranks may have none. Hosts are
 * taken to be as large as the largest, but for the last. */
static int crossing(const coll_layout *s, int round)
{
    const int locals = s->host_ranks_max;
    const int distance = 1 << round;
    int most = 0;
    if (s->hosts == 1) {
        return 0;
    }
    if (!s->contiguous) {
        return locals;
    }
    if (is_power(locals) && distance < locals) {
        return 0;
    }
    for (int first = 0; first < s->ranks && most < locals; first += locals) {
        const int out = crossing_of(s, first, distance);
        most = out > most ? out : most;
    }
    return most;
}

/* Rounds with partners at rising distance: those in which no rank crosses stay inside. */
static void add_rounds(price *p, const coll_layout *s, double times)
{
    for (int round = 0; round < log2_up(s->ranks); round++) {
        p->latencies[crossing(s, round) == 0 ? INSIDE : BETWEEN] += times;
    }
}

/* What a price is for no bytes. */
static double latency_us(const price *p, const coll_costs *costs)
{
    return p->latencies[INSIDE] * costs->inside.latency_us +
           p->latencies[BETWEEN] * costs->between.latency_us +
           p->messages[INSIDE] * costs->inside.message_us +
           p->messages[BETWEEN] * costs->between.message_us;
}

/* Everybody to everybody, or to one: `bytes` of the vector at a rank, in ranks - 1 messages. */
static void add_star(price *p, const coll_layout *s, double times, double bytes, bool one_rank)
{
    const int locals = s->host_ranks_max;
    const int strangers = s->ranks - locals;
    const double share = ratio(strangers, s->ranks - 1);
    p->latencies[farthest(s)] += times;
    p->messages[INSIDE] += times * (s->hosts == 1 ? locals - 2 : locals - 1);
    p->messages[BETWEEN] += times * (s->hosts == 1 ? 0 : strangers - 1);
    p->bytes[INSIDE] += bytes * (1 - share);
    p->bytes[BETWEEN] += bytes * share * (one_rank ? 1 : locals);
}

/* Bytes that pass every rank, and leave each host on `links` links. */
static void add_bytes(price *p, const coll_layout *s, double bytes, double links)
{
    p->bytes[farthest(s)] += s->hosts == 1 ? bytes : bytes * links;
}

static double chain_links(const coll_layout *s)
{
    return s->contiguous ? 1 : s->host_ranks_max;
}

static price ring(const coll_layout *s, coll_kind kind)
{
    price p = {.reduced = 0};
    const double part = ratio(s->ranks - 1, s->ranks);
    const bool scans = coll_kind_is_scan(kind);
    const bool chain = kind == COLL_BROADCAST || kind == COLL_REDUCE || scans;
    const double times = kind == COLL_ALL_REDUCE ? 2 : 1;
    /* what goes along all ranks leaves each host once, but the last of a chain */
    const int leaves = chain ? s->hosts - 1 : s->hosts;
    const int between = s->hosts == 1                        ? 0
                        : s->contiguous && leaves < s->ranks ? leaves
                                                             : s->ranks - 1;
    p.latencies[INSIDE] = times * (s->ranks - 1 - between);
    p.latencies[BETWEEN] = times * between;
    p.fill = chain ? s->ranks - 2 : 0;
    add_bytes(&p, s, chain ? 1 : times * part, chain_links(s));
    p.reduced = kind == COLL_REDUCE || scans ? 1 : coll_kind_reduces(kind) ? part : 0;
    return p;
}

static price tree(const coll_layout *s, coll_kind kind)
{
    price p = {.reduced = kind == COLL_BROADCAST ? 0 : 1};
    const double times = kind == COLL_ALL_REDUCE ? 2 : 1;
    add_rounds(&p, s, times);
    /* two ranks are each the top of one tree and a leaf of the other */
    add_bytes(&p, s, s->ranks == 2 ? times / 2 : times, 2 * chain_links(s));
    p.fill = times * log2_up(s->ranks);
    if (kind != COLL_ALL_REDUCE) { /* from the root to the tops of the trees */
        p.latencies[INSIDE] += 1;
    }
    return p;
}

static price direct(const coll_layout *s, coll_kind kind)
{
    price p = {.reduced = 0};
    const double part = ratio(s->ranks - 1, s->ranks);
    switch (kind) {
    case COLL_ALL_REDUCE:
        add_star(&p, s, 2, 2 * part, false);
        break;
    case COLL_REDUCE:
        add_star(&p, s, 1, part, false);
        add_star(&p, s, 1, part, true);
        break;
    case COLL_BROADCAST:
        add_star(&p, s, 1, s->ranks - 1, true);
        break;
    case COLL_SCAN:
    case COLL_EXSCAN: /* the first rank sends as much, the last one receives it, and combines */
        add_star(&p, s, 1, s->ranks - 1, false);
        p.reduced = s->ranks - 1;
        return p;
    case COLL_GATHER:
    case COLL_SCATTER:
        add_star(&p, s, 1, part, true);
        break;
    default:
        add_star(&p, s, 1, part, false);
        break;
    }
    p.reduced = coll_kind_reduces(kind) ? part : 0;
    return p;
}

/* Recursive doubling, where n is no power of two: how often the value of the last, short group leaves
 * the first host while it is passed on inside the full one (plan/doubling.c). */
static int spread_between(const coll_layout *s)
{
    int full = 1;
    int count = 0;
    while (2 * full < s->ranks) {
        full *= 2;
    }
    for (int offset = 0; offset < s->host_ranks_max; offset++) {
        for (int reach = s->ranks - full; offset + reach < full; reach *= 2) {
            count += reach > offset && offset + reach >= s->host_ranks_max ? 1 : 0;
        }
    }
    return count;
}

/* The whole vector in every round. In a scan most ranks combine their prefix and their group's total. */
static price doubling(const coll_layout *s, bool scans)
{
    price p = {.reduced = 0};
    const int rounds = log2_up(s->ranks);
    add_rounds(&p, s, 1);
    p.bytes[INSIDE] = p.latencies[INSIDE];
    int out = 0; /* ranks of a host that cross, in the end those of the last round */
    for (int round = 0; round < rounds; round++) {
        out = crossing(s, round);
        p.bytes[BETWEEN] += out;
    }
    p.reduced = scans ? 2 * rounds - 1 : rounds;
    if (!is_power(s->ranks) &&
        !scans) { /* the short group's value is passed on, and merged from memory */
        out = s->contiguous && is_power(s->host_ranks_max) ? spread_between(s) : out;
        p.latencies[out == 0 ? INSIDE : BETWEEN] += 1;
        p.bytes[INSIDE] += out == 0 ? 1 : 0;
        p.bytes[BETWEEN] += out;
    }
    return p;
}

/* The second largest power of two in n: what its ranks hold of the vector grows as it shrinks. */
static int second_segment(int n)
{
    int bit = 1;
    int second = 0;
    for (int first = 0; bit <= n; bit *= 2) {
        second = (n & bit) != 0 ? first : second;
        first = (n & bit) != 0 ? bit : first;
    }
    return second;
}

/* Whether ranks first ... end - 1 are on one host. */
static bool is_here(const coll_layout *s, int first, int end)
{
    return s->hosts == 1 ||
           (s->contiguous && first / s->host_ranks_max == (end - 1) / s->host_ranks_max);
}

/* The latencies and messages that lie one after the other until the first of the segments of powers of two has the
 * value (plan/halving.c). Each halves by itself while what those on its right have is on its way to it, in as many
 * messages as its ranks are more than theirs, and waits for what comes later. `back`: the value goes the other way,
 * where its receivers wait for these messages while the first segment doubles. */
static price longest_way(const coll_layout *s, const coll_costs *costs, bool back)
{
    price longest = {.reduced = 0};
    int smaller = 0; /* ranks of the segment on the right; 0: there is none */
    for (int log = 0; 1 << log <= s->ranks; log++) {
        price own = {.reduced = 0};
        int across = INSIDE; /* to the segment on the right */
        if ((s->ranks & 1 << log) == 0) {
            continue;
        }
        for (int round = 0; round < log; round++) {
            own.latencies[crossing(s, round) == 0 ? INSIDE : BETWEEN] += 1;
        }
        if (smaller > 0) {
            const int begin = s->ranks >> log & ~1; /* in segments of this size */
            across = is_here(s, begin << log, ((begin + 1) << log) + smaller) ? INSIDE : BETWEEN;
            longest.latencies[across] += 1;
            longest.messages[across] += back ? 0 : ratio(1 << log, smaller) - 1;
        }
        longest = latency_us(&longest, costs) > latency_us(&own, costs) ? longest : own;
        longest.messages[across] += smaller > 0 ? 1 : 0; /* shares a link with those of a round */
        smaller = 1 << log;
    }
    return longest;
}

static void add_way(price *p, const coll_layout *s, const coll_costs *costs, bool back)
{
    const price way = longest_way(s, costs, back);
    for (int i = 0; i < CLASSES; i++) {
        p->latencies[i] += way.latencies[i];
        p->messages[i] += way.messages[i];
    }
}

static price halving(const coll_layout *s, const coll_costs *costs, coll_kind kind)
{
    price p = {.reduced = ratio(s->ranks - 1, s->ranks)};
    const double times = kind == COLL_ALL_REDUCE ? 2 : 1;
    double left = 1; /* of the vector, at a rank */
    add_way(&p, s, costs, false);
    if (kind == COLL_ALL_REDUCE) {
        add_way(&p, s, costs, true);
    }
    for (int round = 0; round < log2_up(s->ranks); round++) {
        const double after = left / 2 > 1.0 / s->ranks ? left / 2 : 1.0 / s->ranks;
        const int out = crossing(s, round);
        p.bytes[INSIDE] += out == 0 ? times * (left - after) : 0;
        p.bytes[BETWEEN] += times * out * (left - after);
        left = after;
    }
    if (!is_power(s->ranks)) {
        add_bytes(&p, s, times / (second_segment(s->ranks) + 1), 1);
    }
    if (kind == COLL_REDUCE) {
        add_star(&p, s, 1, ratio(s->ranks - 1, s->ranks), true);
    } else if (kind == COLL_REDUCE_SCATTER) {
        p.latencies[farthest(s)] += 1;
        add_bytes(&p, s, 1.0 / s->ranks, s->host_ranks_max);
    }
    return p;
}

static price binomial(const coll_layout *s, coll_kind kind)
{
    price p = {.reduced = 0};
    const int rounds = log2_up(s->ranks);
    add_rounds(&p, s, 1);
    if (kind == COLL_GATHER || kind == COLL_SCATTER) { /* the longest path carries half twice */
        add_bytes(&p, s, ratio(s->ranks - 1, s->ranks) + (s->ranks > 2 ? 0.5 : 0), 1);
        return p;
    }
    p.bytes[INSIDE] = p.latencies[INSIDE]; /* the root has a child in every round */
    p.bytes[BETWEEN] = p.latencies[BETWEEN];
    p.reduced = kind == COLL_REDUCE ? rounds : 0;
    return p;
}

static price dissemination(const coll_layout *s, coll_kind kind)
{
    price p = {.reduced = 0};
    const double part = ratio(s->ranks - 1, s->ranks);
    add_rounds(&p, s, 1);
    add_bytes(&p, s, part, s->host_ranks_max);
    if (kind == COLL_BROADCAST) {
        add_star(&p, s, 1, part, true);
    }
    return p;
}

static price two_level(const coll_layout *s, coll_kind kind)
{
    price p = {.reduced = 0};
    const int locals = s->host_ranks_max;
    const double slice = 1.0 / s->host_ranks_min;
    const double across = s->hosts == 1 ? 0 : ratio(s->hosts - 1, s->hosts);
    if (kind != COLL_ALL_REDUCE) { /* all at the leaders */
        p.latencies[INSIDE] = locals > 1 ? 1 : 0;
        p.latencies[BETWEEN] = s->hosts > 1 ? 1 : 0;
        p.bytes[INSIDE] = locals - 1;
        p.bytes[BETWEEN] = s->hosts - 1;
        p.reduced = kind == COLL_REDUCE ? locals - 1 + s->hosts - 1 : 0;
        return p;
    }
    if (locals > 1) {
        p.latencies[INSIDE] = 2;
        p.messages[INSIDE] =
            (locals - 2) + (s->hosts * (locals - 1) - 1); /* in the end block by block */
        p.bytes[INSIDE] = 2 * (locals - 1) * slice;
        p.reduced = (locals - 1) * slice;
    }
    if (s->hosts > 1) {
        /* Each owner sends its blocks in the order of hosts. So those for the last host, all H - 1, come when H - 2
         * have gone to the others, and its own block is complete as much later. */
        p.latencies[BETWEEN] = 2;
        p.messages[BETWEEN] = 3 * (s->hosts - 2);
        p.bytes[BETWEEN] = 2 * across + ratio(s->hosts - 2, s->hosts);
        p.reduced += across * slice;
    }
    return p;
}

static price price_of(const coll_layout *s, const coll_costs *costs, coll_kind kind,
                      coll_algorithm algorithm)
{
    switch (coll_plan_form(algorithm, kind)) {
    case COLL_FORM_RING:
        return ring(s, kind);
    case COLL_FORM_TREE:
        return tree(s, kind);
    case COLL_FORM_DIRECT:
        return direct(s, kind);
    case COLL_FORM_DOUBLING:
    case COLL_FORM_SCAN:
        return doubling(s, coll_kind_is_scan(kind));
    case COLL_FORM_HALVING:
        return halving(s, costs, kind);
    case COLL_FORM_TWO_LEVEL:
        return two_level(s, kind);
    case COLL_FORM_BINOMIAL:
        return binomial(s, kind);
    case COLL_FORM_DISSEMINATION:
        break;
    }
    return dissemination(s, kind);
}

double coll_cost_us(const coll_costs *costs, const coll_layout *shape, coll_kind kind,
                    coll_algorithm algorithm, size_t whole_bytes)
{
    if (shape->ranks == 1 || !coll_kind_has_plans(kind)) {
        return 0;
    }
    if (algorithm < COLL_ALGORITHM_RING || algorithm > COLL_ALGORITHM_LAST) {
        algorithm = coll_cost_choose(costs, shape, kind, whole_bytes);
    }
    const price p = price_of(shape, costs, kind, algorithm);
    const double kilo = (double)whole_bytes / 1000; /* ns per byte, us per kilobyte */
    const double chunk = whole_bytes < CHUNK_BYTES ? kilo : CHUNK_BYTES / 1000.0;
    const coll_link_cost *link = shape->hosts == 1 ? &costs->inside : &costs->between;
    return costs->start_us + latency_us(&p, costs) +
           kilo * (p.bytes[INSIDE] * costs->inside.byte_ns +
                   p.bytes[BETWEEN] * costs->between.byte_ns + p.reduced * costs->reduce_byte_ns) +
           p.fill * chunk * link->byte_ns;
}

bool coll_cost_is_eligible(const coll_layout *shape, coll_kind kind, coll_algorithm algorithm)
{
    const coll_plan plan = {.algorithm = algorithm, .kind = kind, .ranks = shape->ranks};
    if (algorithm < COLL_ALGORITHM_RING || algorithm > COLL_ALGORITHM_LAST ||
        (algorithm == COLL_ALGORITHM_TWO_LEVEL && coll_kind_reduces(kind) && !shape->aligned)) {
        return false;
    }
    return coll_plan_is_canonical(&plan);
}

coll_algorithm coll_cost_choose(const coll_costs *costs, const coll_layout *shape, coll_kind kind,
                                size_t whole_bytes)
{
    coll_algorithm best = COLL_ALGORITHM_DIRECT;
    double least = coll_cost_us(costs, shape, kind, best, whole_bytes);
    for (int i = COLL_ALGORITHM_RING; i <= COLL_ALGORITHM_LAST; i++) {
        const coll_algorithm algorithm = (coll_algorithm)i;
        if (!coll_cost_is_eligible(shape, kind, algorithm)) {
            continue;
        }
        const double cost = coll_cost_us(costs, shape, kind, algorithm, whole_bytes);
        if (cost < least) {
            best = algorithm;
            least = cost;
        }
    }
    return best;
}
