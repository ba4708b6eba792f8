/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slow/slow.h"

#include "core/flow/members.h"
#include "core/wire/wire.h"

enum {
    SLOW_PACKETS_MIN = 1000, /* packets sent in a period: a share of fewer does no harm */
    SLOW_NOTICES = 5,        /* sent for each decision, as some may be lost */
    SLOW_PROBES = 8,         /* notices to a silent receiver, which answers each with a report */
};

_Static_assert((int)LLI_STANDING_EXPELLED == (int)LLI_WIRE_STANDING_MAX, "NOTICE carries every standing");

void lli_slow_init(struct lli_slow *slow, const struct lli_slow_policy *policy, uint32_t members_max,
                   struct lli_arena *arena, lli_seq start, lli_ns now)
{
    *slow = (struct lli_slow){.policy = *policy,
                              .limit = members_max,
                              .sent.counted = start,
                              .sent.bucket_at = now + LLI_SLOW_PERIOD / LLI_SLOW_BUCKETS,
                              .assessed_at = now,
                              .quiet = true};
    slow->table = lli_arena_take(arena, members_max * sizeof *slow->table, 64);
    slow->returns = lli_arena_take(arena, LLI_SLOW_RETURNS * sizeof *slow->returns, 64);
}

/* Clears the buckets of a record whose time ended since the record was last used. */
static void slow_turned(const struct lli_slow *slow, struct lli_slow_record *record)
{
    const uint64_t turns = lli_min(slow->sent.turns - record->turns, LLI_SLOW_BUCKETS);

    for (uint32_t i = 0; i < turns; i++) {
        const uint32_t bucket = (slow->sent.bucket + LLI_SLOW_BUCKETS - i) % LLI_SLOW_BUCKETS;

        record->naks[bucket] = record->requested[bucket] = 0;
    }
    record->turns = slow->sent.turns;
}

/* Creates the record of an unknown receiver. */
static struct lli_slow_record slow_new(uint64_t id, lli_ns now)
{
    return (struct lli_slow_record){
        .id = id, .heard_at = now, .back_at = now, .goal_at = now, .beyond_at = {LLI_NEVER, LLI_NEVER}};
}

/*
 * Returns the record of a member; resets it if it belongs to another receiver, or dates from before the
 * member left, was forgotten or expelled.
 */
static struct lli_slow_record *slow_record(const struct lli_slow *slow, const struct lli_members *members,
                                           uint32_t index, lli_ns now)
{
    struct lli_slow_record *record = &slow->table[index];
    struct lli_member *member = &members->table[index];
    const bool same = record->id == member->id, event_due = same && record->event_due,
               ordered = same && record->ordered;

    if (same && member->record) {
        slow_turned(slow, record);
        return record;
    }
    member->record = true;
    *record = slow_new(member->id, now);
    record->turns = slow->sent.turns;
    /* Pending events and operator's orders survive the reset. */
    record->event_due = event_due;
    record->ordered = ordered;
    return record;
}

static bool slow_is_of(const struct lli_members *members, uint32_t index,
                       const struct lli_slow_record *record)
{
    return record->id != 0 && members->table[index].id == record->id;
}

/* --------------------------------------------------------------------------------------------- figures */

static uint64_t slow_sum(const uint32_t *buckets)
{
    uint64_t sum = 0;

    for (int i = 0; i < LLI_SLOW_BUCKETS; i++)
        sum += buckets[i];
    return sum;
}

/* Advances to the next bucket; receivers' buckets are cleared when their records are used. */
static void slow_turn(struct lli_slow *slow, lli_ns now)
{
    const lli_ns piece = LLI_SLOW_PERIOD / LLI_SLOW_BUCKETS;

    for (int turns = 0; now >= slow->sent.bucket_at && turns < LLI_SLOW_BUCKETS; turns++) {
        slow->sent.bucket = (slow->sent.bucket + 1) % LLI_SLOW_BUCKETS;
        slow->sent.bucket_at += piece;
        slow->sent.packets[slow->sent.bucket] = 0;
        slow->sent.turns++;
    }
    if (now >= slow->sent.bucket_at)
        slow->sent.bucket_at = now + piece;
}

/*
 * Interval at which a receiver reports: grows with the number of receivers (section 7), now or when the
 * receiver last heard it.
 */
static lli_ns slow_report_interval(const struct lli_slow *slow, const struct lli_members *members,
                                   const struct lli_slow_record *record)
{
    const struct lli_member *member = &members->table[record - slow->table];

    return lli_max(slow->policy.status * lli_max(1, members->count / 10),
                   lli_members_distance(members, member, record->heard_at));
}

/* Threshold of a figure; that of silence grows with the report interval. */
static uint64_t slow_limit(const struct lli_slow *slow, const struct lli_members *members,
                           const struct lli_slow_record *record, enum llm_threshold threshold)
{
    const uint64_t limit = slow->policy.limits[threshold];

    return threshold != LLM_THRESHOLD_SILENCE || limit == 0
               ? limit
               : limit * (slow_report_interval(slow, members, record) / lli_max(slow->policy.status, 1));
}

/* Time of silence: 0 while the receiver has everything, as no report is expected then. */
static lli_ns slow_silence(const struct lli_slow *slow, const struct lli_slow_record *record, lli_ns now)
{
    return record->next == 0 || record->next >= slow->sent.counted || now < record->heard_at
               ? 0
               : now - record->heard_at;
}

static lli_ns slow_debt(const struct lli_slow_record *record)
{
    return lli_max(record->debt.goal_ns, record->debt.before_ns);
}

static uint64_t slow_figure(const struct lli_slow *slow, const struct lli_slow_record *record,
                            enum llm_threshold threshold, lli_ns now)
{
    const uint64_t sent = slow_sum(slow->sent.packets);

    switch (threshold) {
    case LLM_THRESHOLD_NAKS:
        return slow_sum(record->naks) * 1000000000 / LLI_SLOW_PERIOD;
    case LLM_THRESHOLD_NAK_SHARE:
        return sent < SLOW_PACKETS_MIN ? 0 : slow_sum(record->requested) * 1000000 / sent;
    case LLM_THRESHOLD_LAG_PACKETS:
        return record->lag_packets;
    case LLM_THRESHOLD_LAG_BYTES:
        return record->lag_bytes;
    case LLM_THRESHOLD_LAG_TIME:
        return record->lag_ns;
    case LLM_THRESHOLD_ACK_TIME:
        return slow_debt(record);
    case LLM_THRESHOLD_SILENCE:
        return slow_silence(slow, record, now);
    case LLM_THRESHOLD_NONE:
    case LLM_THRESHOLD_GROUP:
    case LLM_THRESHOLD_OPERATOR:
        break;
    }
    return 0;
}

/* Standing of a receiver by one of its figures. */
static struct lli_slow_level slow_level(const struct lli_slow *slow, const struct lli_members *members,
                                        struct lli_slow_record *record, enum llm_threshold threshold,
                                        lli_ns now)
{
    const struct lli_slow_policy *policy = &slow->policy;
    const uint64_t limit = slow_limit(slow, members, record, threshold);
    const bool patient = threshold == LLM_THRESHOLD_NAKS || threshold == LLM_THRESHOLD_NAK_SHARE;
    struct lli_slow_level level = {
        .threshold = threshold, .value = slow_figure(slow, record, threshold, now), .limit = limit};
    /* A receiver that is new, or back from a silence, gets time to catch up. */
    const bool spared = (threshold == LLM_THRESHOLD_LAG_PACKETS || threshold == LLM_THRESHOLD_LAG_BYTES) &&
                        now - record->back_at < policy->recover;
    lli_ns *beyond_at = &record->beyond_at[threshold == LLM_THRESHOLD_NAK_SHARE];

    if (limit == 0)
        return level;
    if (patient)
        *beyond_at = level.value < limit ? LLI_NEVER : lli_min(*beyond_at, now);
    if (level.value >= limit && !spared && (!patient || now - *beyond_at >= policy->patience)) {
        level.standing = LLI_STANDING_SUSPENDED;
    } else if (threshold != LLM_THRESHOLD_SILENCE && level.value * 100 >= limit * policy->unicast_percent) {
        level.standing = LLI_STANDING_UNICAST;
        level.limit = limit * policy->unicast_percent / 100;
    } else if (threshold != LLM_THRESHOLD_SILENCE && level.value * 100 >= limit * policy->warn_percent) {
        level.standing = LLI_STANDING_WARNED;
        level.limit = limit * policy->warn_percent / 100;
    }
    return level;
}

/* Sets the standing wanted by the worst figure. */
static void slow_weigh(const struct lli_slow *slow, const struct lli_members *members,
                       struct lli_slow_record *record, lli_ns now)
{
    record->wanted = (struct lli_slow_level){.standing = LLI_STANDING_FINE};
    for (int threshold = LLM_THRESHOLD_NAKS; threshold < LLI_SLOW_LIMITS; threshold++) {
        const struct lli_slow_level level =
            slow_level(slow, members, record, (enum llm_threshold)threshold, now);

        if (level.standing > record->wanted.standing)
            record->wanted = level;
    }
}

/* ------------------------------------------------------------------------------------------ packets in */

static void slow_set(struct lli_slow *slow, struct lli_member *member, struct lli_slow_record *record,
                     struct lli_slow_level level, lli_ns now)
{
    /* An operator's order, and its end, apply even in a dry run. */
    const bool earnest =
        !slow->policy.dry || record->ordered || record->stands.threshold == LLM_THRESHOLD_OPERATOR;

    record->stands = level;
    record->decided_at = now;
    record->event_due = slow->unreported = true;
    record->notices = earnest ? SLOW_NOTICES : 0;
    member->standing = slow->policy.dry && !record->ordered ? LLI_STANDING_FINE : level.standing;
    slow->decided[level.standing]++;
}

/* Ends a suspension; this changes which members count, and the next evaluation reports that. */
static void slow_lift(struct lli_slow *slow, struct lli_member *member, struct lli_slow_record *record,
                      lli_ns now)
{
    slow_set(slow, member, record, (struct lli_slow_level){.standing = LLI_STANDING_FINE}, now);
    slow->lifted = true;
    slow->quiet = false;
}

/*
 * Notes that a receiver was heard. One suspended for silence is served again at once, as this NAK may be the
 * first packet heard of it, and the silent time does not count as lag. One not served for another reason gets
 * a notice whenever it is heard.
 */
static struct lli_slow_record *slow_heard(struct lli_slow *slow, struct lli_members *members, uint32_t index,
                                          lli_ns now)
{
    struct lli_slow_record *record = slow_record(slow, members, index, now);
    const uint64_t limit = slow_limit(slow, members, record, LLM_THRESHOLD_SILENCE);

    if (limit != 0 && slow_silence(slow, record, now) >= limit) {
        record->goal = record->goal_ns = record->before_ns = 0;
        record->debt = (struct lli_slow_debt){.goal = 0};
        record->back_at = now;
    }
    record->heard_at = now;
    record->probes = 0;
    if (record->stands.standing == LLI_STANDING_SUSPENDED &&
        record->stands.threshold == LLM_THRESHOLD_SILENCE && !record->ordered)
        slow_lift(slow, &members->table[index], record, now);
    if (!lli_member_counts(&members->table[index]))
        record->answer = true;
    return record;
}

bool lli_slow_heard(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_ns now)
{
    slow_heard(slow, members, index, now)->answer |= slow->suspends_all;
    slow->quiet = false;
    return slow->suspends_all || !lli_member_counts(&members->table[index]);
}

bool lli_slow_nak(struct lli_slow *slow, struct lli_members *members, uint32_t index, uint64_t packets,
                  lli_ns now)
{
    struct lli_slow_record *record = slow_record(slow, members, index, now);

    record->naks[slow->sent.bucket]++;
    record->requested[slow->sent.bucket] =
        (uint32_t)lli_min(record->requested[slow->sent.bucket] + packets, UINT32_MAX);
    return lli_slow_heard(slow, members, index, now);
}

/*
 * Updates the time for which acknowledgements are owed, like the lag time below: packets sent before one of
 * the reports are its goal, replaced once all of them are acknowledged or no longer waited for. Restarts if
 * the transmitter was not polled for long.
 */
static void slow_owes(const struct lli_slow *slow, struct lli_slow_record *record, lli_seq owes, lli_seq sent,
                      lli_ns now)
{
    struct lli_slow_debt *debt = &record->debt;

    if (now - slow->assessed_at > slow->policy.status)
        *debt = (struct lli_slow_debt){.goal = 0};
    debt->owes = owes != 0;
    if (owes != 0 && owes < debt->goal) {
        debt->goal_ns = now - debt->goal_at;
        return;
    }
    debt->before_ns = debt->goal_ns;
    debt->goal_ns = 0;
    debt->goal = sent;
    debt->goal_at = now;
}

/*
 * Lag time: time since packets were sent that the receiver does not have, as far as its reports tell. Packets
 * sent before one of its reports are its goal, replaced once it has them. The lag is the longer of the
 * current and the previous goal's time.
 */
void lli_slow_report(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_seq sent,
                     lli_ns now)
{
    struct lli_slow_record *record = slow_heard(slow, members, index, now);

    record->next = members->table[index].next;
    record->lag_bytes = members->table[index].lag_bytes;
    /*
     * A receiver that fetches the past does not report its position; its lag counts from the first report
     * that does.
     */
    if (record->next == 0) {
        record->lag_packets = record->lag_ns = record->goal = record->goal_ns = record->before_ns = 0;
        record->debt = (struct lli_slow_debt){.goal = 0};
        return;
    }
    record->lag_packets = sent - lli_min(record->next, sent);
    if (record->next < record->goal) {
        record->goal_ns = now - record->goal_at;
    } else {
        record->before_ns = record->goal_ns;
        record->goal_ns = 0;
        record->goal = sent;
        record->goal_at = now;
    }
    record->lag_ns = lli_max(record->goal_ns, record->before_ns);
    slow_owes(slow, record, members->table[index].owes, sent, now);
    slow->quiet &= record->lag_packets == 0 && !record->debt.owes && !record->answer;
}

/* -------------------------------------------------------------------------------------------- expulsions */

/* Returns the record of an expelled receiver, else the free or oldest record. */
static struct lli_slow_return *slow_return(const struct lli_slow *slow, uint64_t id)
{
    struct lli_slow_return *found = slow->returns;

    for (uint32_t i = 0; i < LLI_SLOW_RETURNS; i++) {
        struct lli_slow_return *at = &slow->returns[i];

        if (at->id == id)
            return at;
        if (found->id != 0 && (at->id == 0 || at->since < found->since))
            found = at;
    }
    return found;
}

/*
 * Expulsion time: twice the previous one, so that a receiver that never fits the policy returns ever less
 * often.
 */
static lli_ns slow_rejoin(const struct lli_slow *slow, const struct lli_slow_record *record, lli_ns now)
{
    const lli_ns rejoin = slow->policy.rejoin,
                 most = lli_max(rejoin, lli_min(rejoin * LLI_SLOW_REJOIN_TIMES, LLI_SLOW_REJOIN_MAX));
    struct lli_slow_return *last = slow_return(slow, record->id);
    const bool again = last->id == record->id && now - last->since < LLI_SLOW_REJOIN_MAX;

    *last = (struct lli_slow_return){
        .id = record->id, .rejoin = again ? lli_min(2 * last->rejoin, most) : rejoin, .since = now};
    return last->rejoin;
}

/* -------------------------------------------------------------------------------------------- decisions */

/*
 * Standing wanted by the figures, limited by the policy; if most receivers suffer, none gets a worse
 * standing.
 */
static struct lli_slow_level slow_allowed(const struct lli_slow *slow, const struct lli_slow_record *record,
                                          bool most_suffer)
{
    struct lli_slow_level level = record->wanted;
    enum lli_standing most = slow->policy.most;

    if (most_suffer)
        most = (enum lli_standing)lli_min(most, lli_max(record->stands.standing, LLI_STANDING_WARNED));
    if (record->ordered)
        return (struct lli_slow_level){.standing = LLI_STANDING_SUSPENDED,
                                       .threshold = LLM_THRESHOLD_OPERATOR};
    if (level.standing > most)
        level.standing = most;
    return level;
}

/* True if the reason for a suspension that ends at once, silence or an order, is gone. */
static bool slow_is_lifted(const struct lli_slow_record *record, struct lli_slow_level level)
{
    const struct lli_slow_level *stands = &record->stands;

    return stands->standing == LLI_STANDING_SUSPENDED && level.standing < LLI_STANDING_SUSPENDED &&
           (stands->threshold == LLM_THRESHOLD_SILENCE || stands->threshold == LLM_THRESHOLD_OPERATOR);
}

static void slow_one(struct lli_slow *slow, struct lli_member *member, struct lli_slow_record *record,
                     bool most_suffer, lli_ns now)
{
    const struct lli_slow_policy *policy = &slow->policy;
    const struct lli_slow_level *stands = &record->stands;
    struct lli_slow_level level = slow_allowed(slow, record, most_suffer);

    if (record->wanted.standing != LLI_STANDING_FINE)
        record->bad_at = now;
    if (stands->standing == LLI_STANDING_SUSPENDED && policy->most == LLI_STANDING_EXPELLED && !most_suffer &&
        !record->ordered && record->bad_at == now && now - record->decided_at >= policy->expel) {
        level = *stands;
        level.standing = LLI_STANDING_EXPELLED;
        record->rejoin = slow_rejoin(slow, record, now);
    }
    if (level.standing > stands->standing || slow_is_lifted(record, level))
        slow_set(slow, member, record, level, now);
    else if (level.standing == LLI_STANDING_SUSPENDED && stands->threshold == LLM_THRESHOLD_SILENCE &&
             level.threshold != LLM_THRESHOLD_SILENCE)
        slow_set(slow, member, record, level, now);
    else if (stands->standing != LLI_STANDING_FINE && level.standing == LLI_STANDING_FINE &&
             now - record->bad_at >= policy->recover)
        slow_set(slow, member, record, level, now);
}

/*
 * Lets an expelled receiver return when its time is over; only the expulsion time is remembered. True if it
 * is expelled, or was until this call.
 */
static bool slow_is_over(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_ns now)
{
    struct lli_slow_record *record = &slow->table[index];
    struct lli_slow_return *last;

    if (record->stands.standing != LLI_STANDING_EXPELLED)
        return false;
    if (record->rejoin == 0 || now - record->decided_at < record->rejoin)
        return true;
    slow_set(slow, &members->table[index], record, (struct lli_slow_level){.standing = LLI_STANDING_FINE},
             now);
    record->notices = 0;
    members->table[index].record = false;
    last = slow_return(slow, record->id);
    if (last->id == record->id)
        last->since = now;
    if (!slow->policy.dry)
        lli_members_del(members, record->id);
    return true;
}

/* True if a receiver's report is overdue and may have been lost: probe it. */
static bool slow_is_probed(const struct lli_slow *slow, const struct lli_members *members,
                           struct lli_slow_record *record, lli_ns now)
{
    const lli_ns interval = slow_report_interval(slow, members, record);

    return slow->policy.most >= LLI_STANDING_SUSPENDED && record->stands.standing < LLI_STANDING_SUSPENDED &&
           slow_silence(slow, record, now) > interval + interval / 5 && record->probes < SLOW_PROBES &&
           ++record->probes > 0;
}

static void slow_notify(struct lli_slow *slow, const struct lli_members *members,
                        struct lli_slow_record *record, lli_ns now)
{
    if (record->notices > 0) {
        record->notices--;
        record->answer = true;
    }
    record->notify |= record->answer || slow_is_probed(slow, members, record, now);
    record->answer = false;
    slow->notices.due |= record->notify;
}

/*
 * Group rule: true if more than half of the receivers that reported suffer. Reports its beginning, and its
 * end after a while.
 */
static bool slow_group(struct lli_slow *slow, lli_ns now)
{
    const bool most_suffer = slow->scan.slice.suffering > slow->scan.slice.receivers / 2;

    if (most_suffer)
        slow->group.at = now;
    /* With a single receiver, its own verdict says everything. */
    if (most_suffer ? !slow->group.in_force && slow->scan.slice.receivers > 1
                    : slow->group.in_force && now - slow->group.at >= slow->policy.recover) {
        slow->group.in_force = most_suffer;
        slow->group.event_due = slow->unreported = slow->policy.most != LLI_STANDING_FINE;
    }
    return most_suffer;
}

/*
 * Permutes positions by an odd factor, modulo a power of two: consecutive positions are far apart, unrelated
 * to the order in which receivers joined.
 */
static uint32_t slow_place(const struct lli_slow_slice *slice, uint32_t position)
{
    return slice->count == 1 ? position : (position * 0x9e3779b1u) & slice->mask;
}

static struct lli_slow_slice slow_slice(const struct lli_members *members, uint32_t index, uint32_t count)
{
    uint32_t places = 1, size;

    if (count == 1)
        return (struct lli_slow_slice){.count = 1, .to = members->end};
    while (places < members->end)
        places *= 2;
    size = (places + count - 1) / count;
    return (struct lli_slow_slice){.index = index,
                                   .count = count,
                                   .from = index * size,
                                   .to = (uint32_t)lli_min((index + 1) * size, places),
                                   .mask = places - 1};
}

/* Advances to the next slice; evaluates all receivers at once after a time without evaluation. */
static void slow_go_on(struct lli_slow *slow, const struct lli_members *members, bool all)
{
    const uint32_t count =
        all ? 1 : (uint32_t)lli_max((members->end + LLI_SLOW_SLICE - 1) / LLI_SLOW_SLICE, 1);
    const bool goes_on = count == slow->scan.slice.count && slow->scan.slice.index + 1 < count;

    slow->scan.slice = slow_slice(members, goes_on ? slow->scan.slice.index + 1 : 0, count);
    if (!goes_on) {
        slow->scan.round = (struct lli_slow_slice){.count = count};
        slow->scan.round_quiet = true;
    }
    slow->notices.cursor = slow->scan.slice.from;
    slow->notices.due = false;
}

/*
 * Figures of all receivers: sums once all were evaluated; until then the first slice stands for the others.
 */
static void slow_sum_up(struct lli_slow *slow)
{
    const struct lli_slow_slice *slice = &slow->scan.slice;
    struct lli_slow_slice *round = &slow->scan.round;

    round->receivers += slice->receivers;
    round->suffering += slice->suffering;
    if (slice->index + 1 == slice->count) {
        slow->group.receivers = round->receivers;
        slow->group.suffering = round->suffering;
    } else if (slow->group.receivers == 0) {
        slow->group.receivers = slice->receivers * slice->count;
        slow->group.suffering = slice->suffering * slice->count;
    }
}

static void slow_weigh_slice(struct lli_slow *slow, struct lli_members *members, lli_ns away, lli_ns now)
{
    for (uint32_t at = slow->scan.slice.from; at < slow->scan.slice.to; at++) {
        const uint32_t i = slow_place(&slow->scan.slice, at);
        struct lli_slow_record *record;

        if (i >= members->end || members->table[i].id == 0)
            continue;
        slow->scan.looked_at++;
        record = slow_record(slow, members, i, now);
        record->heard_at = lli_min(record->heard_at + away, now);
        if (away > 0)
            record->debt = (struct lli_slow_debt){.owes = record->debt.owes};
        slow_weigh(slow, members, record, now);
        /*
         * A receiver that has not reported counts if it suffers. So a single receiver counts before its first
         * report, too.
         */
        if ((record->next == 0 && record->wanted.standing == LLI_STANDING_FINE) ||
            record->stands.standing == LLI_STANDING_EXPELLED)
            continue;
        slow->scan.slice.receivers++;
        slow->scan.slice.suffering += record->wanted.standing != LLI_STANDING_FINE ||
                                      (record->stands.standing == LLI_STANDING_SUSPENDED && !record->ordered);
    }
    slow_sum_up(slow);
}

bool lli_slow_all(struct lli_slow *slow, struct lli_members *members, lli_seq sent, lli_ns now)
{
    /* A transmitter that was not polled for long cannot tell which receivers were silent. */
    const lli_ns away = now - slow->assessed_at > slow->policy.status ? now - slow->assessed_at : 0;
    bool quiet = true, changed = slow->lifted, most_suffer;

    slow->lifted = false;
    slow_turn(slow, now);
    slow_go_on(slow, members, away > 0);
    slow->sent.packets[slow->sent.bucket] += (uint32_t)lli_min(sent - slow->sent.counted, UINT32_MAX / 2);
    slow->sent.counted = sent;
    slow->assessed_at = now;
    slow_weigh_slice(slow, members, away, now);
    most_suffer = slow_group(slow, now);
    for (uint32_t at = slow->scan.slice.from; at < slow->scan.slice.to; at++) {
        const uint32_t i = slow_place(&slow->scan.slice, at);
        struct lli_slow_record *record;
        struct lli_member *member;
        enum lli_standing before;

        if (i >= members->end || members->table[i].id == 0)
            continue;
        member = &members->table[i];
        record = &slow->table[i];
        before = member->standing;
        if (!slow_is_over(slow, members, i, now))
            slow_one(slow, member, record, most_suffer, now);
        changed |= member->standing != before;
        slow_notify(slow, members, record, now);
        quiet &= record->stands.standing == LLI_STANDING_FINE && record->notices == 0 && !record->debt.owes &&
                 (record->next == 0 || record->next >= sent);
    }
    slow->scan.round_quiet &= quiet;
    slow->quiet = slow->scan.slice.index + 1 == slow->scan.slice.count && slow->scan.round_quiet &&
                  !slow->group.in_force && slow_sum(slow->sent.packets) == 0;
    return changed;
}

/* ---------------------------------------------------------------------------------------------- results */

bool lli_slow_notice(struct lli_slow *slow, const struct lli_members *members, struct lli_wire_notice *notice,
                     uint32_t *index)
{
    while (slow->notices.due && slow->notices.cursor < slow->scan.slice.to) {
        const uint32_t place = slow_place(&slow->scan.slice, slow->notices.cursor++);
        struct lli_slow_record *record;
        const lli_ns now = slow->assessed_at;
        struct lli_slow_level level;

        if (place >= members->end || !slow->table[place].notify)
            continue;
        record = &slow->table[place];
        record->notify = false;
        if (!slow_is_of(members, place, record))
            continue;
        level = record->stands;
        slow_turned(slow, record);
        if (slow->suspends_all && level.standing < LLI_STANDING_SUSPENDED)
            level = (struct lli_slow_level){.standing = LLI_STANDING_SUSPENDED,
                                            .threshold = LLM_THRESHOLD_OPERATOR};
        else if (slow->policy.dry && !record->ordered)
            level = (struct lli_slow_level){.standing = LLI_STANDING_FINE};
        *notice = (struct lli_wire_notice){
            .receiver = record->id,
            .decided_at = record->decided_at,
            .value = level.value,
            .limit = level.limit,
            .lag_ns = record->lag_ns,
            .silent_ns = slow_silence(slow, record, now),
            .naks_per_s = (uint32_t)lli_min(slow_figure(slow, record, LLM_THRESHOLD_NAKS, now), UINT32_MAX),
            .nak_ppm = (uint32_t)lli_min(slow_figure(slow, record, LLM_THRESHOLD_NAK_SHARE, now), UINT32_MAX),
            .lag_packets = (uint32_t)lli_min(record->lag_packets, UINT32_MAX),
            .receivers = slow->group.receivers,
            .suffering = slow->group.suffering,
            .rejoin_ms = (uint32_t)lli_min((record->rejoin + 999999) / 1000000, UINT32_MAX),
            .standing = (uint8_t)level.standing,
            .threshold = (uint8_t)level.threshold,
        };
        *index = place;
        return true;
    }
    slow->notices.due = false;
    return false;
}

static void slow_event(struct lli_slow *slow, struct lli_slow_level level, struct llm_event *event)
{
    static const enum llm_event_kind kinds[] = {LLM_EVENT_READMITTED, LLM_EVENT_WARNED,
                                                LLM_EVENT_UNICAST_ONLY, LLM_EVENT_SUSPENDED,
                                                LLM_EVENT_EXPELLED};

    slow->events.verdict =
        (struct llm_verdict){.threshold = level.threshold,
                             .value = level.value,
                             .limit = level.limit,
                             .receivers = slow->group.receivers,
                             .suffering = slow->group.suffering,
                             .dry_run = slow->policy.dry && level.threshold != LLM_THRESHOLD_OPERATOR};
    *event = (struct llm_event){.kind = kinds[level.standing], .verdict = &slow->events.verdict};
}

bool lli_slow_event(struct lli_slow *slow, struct llm_event *event)
{
    const lli_ns now = slow->assessed_at;

    if (slow->group.event_due) {
        slow->group.event_due = false;
        slow_event(slow,
                   (struct lli_slow_level){.standing =
                                               slow->group.in_force ? LLI_STANDING_WARNED : LLI_STANDING_FINE,
                                           .threshold = LLM_THRESHOLD_GROUP,
                                           .value = slow->group.suffering,
                                           .limit = slow->group.receivers / 2 + 1},
                   event);
        return true;
    }
    for (uint32_t i = 0; slow->unreported && i < slow->limit; i++) {
        struct lli_slow_record *record = &slow->table[slow->events.checked++];

        slow->events.checked = slow->events.checked == slow->limit ? 0 : slow->events.checked;
        if (!record->event_due)
            continue;
        record->event_due = false;
        slow_turned(slow, record);
        slow_event(slow, record->stands, event);
        slow->events.verdict.receiver = record->id;
        slow->events.verdict.rejoin_ns =
            record->stands.standing == LLI_STANDING_EXPELLED ? record->rejoin : 0;
        slow->events.verdict.naks_per_s = slow_figure(slow, record, LLM_THRESHOLD_NAKS, now);
        slow->events.verdict.nak_ppm = slow_figure(slow, record, LLM_THRESHOLD_NAK_SHARE, now);
        slow->events.verdict.lag_packets = record->lag_packets;
        slow->events.verdict.lag_bytes = record->lag_bytes;
        slow->events.verdict.ack_ns = slow_debt(record);
        slow->events.verdict.lag_ns = record->lag_ns;
        slow->events.verdict.silent_ns = slow_silence(slow, record, now);
        return true;
    }
    slow->unreported = false;
    return false;
}

bool lli_slow_suspend(struct lli_slow *slow, struct lli_members *members, uint64_t receiver, bool suspend,
                      lli_ns now)
{
    const uint32_t index = lli_members_get(members, receiver);
    struct lli_slow_record *record;

    if (index == LLI_MEMBER_NONE)
        return false;
    slow->quiet = false;
    record = slow_record(slow, members, index, now);
    record->ordered = suspend;
    if (suspend && record->stands.standing < LLI_STANDING_SUSPENDED)
        slow_set(
            slow, &members->table[index], record,
            (struct lli_slow_level){.standing = LLI_STANDING_SUSPENDED, .threshold = LLM_THRESHOLD_OPERATOR},
            now);
    return true;
}

void lli_slow_suspend_all(struct lli_slow *slow, bool suspend)
{
    slow->quiet = false;
    slow->suspends_all = suspend;
    for (uint32_t i = 0; i < slow->limit; i++)
        slow->table[i].notices = SLOW_NOTICES;
}
