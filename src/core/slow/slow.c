/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slow/slow.h"

enum {
    JUDGE_PACKETS_MIN = 1000, /* sent in a period: a share of fewer hurts nobody */
    JUDGE_NOTICES = 5,        /* of each decision, as some may be lost */
    JUDGE_PROBES = 8,         /* notices to a silent receiver, which answers them with a report */
};

void lli_judge_init(struct lli_judge *judge, const struct lli_judge_policy *policy, uint32_t members_max,
                    struct lli_arena *arena, lli_seq start, lli_ns now)
{
    *judge = (struct lli_judge){.policy = *policy,
                                .limit = members_max,
                                .counted = start,
                                .bucket_at = now + LLI_JUDGE_PERIOD / LLI_JUDGE_BUCKETS,
                                .judged_at = now,
                                .quiet = true};
    judge->table = lli_arena_take(arena, members_max * sizeof *judge->table, 64);
    judge->returns = lli_arena_take(arena, LLI_JUDGE_RETURNS * sizeof *judge->returns, 64);
}

/* Empties the buckets of a record whose turn came since it was looked at. */
static void judge_turned(const struct lli_judge *judge, struct lli_judged *record)
{
    const uint64_t turns = lli_min(judge->turns - record->turns, LLI_JUDGE_BUCKETS);

    for (uint32_t i = 0; i < turns; i++) {
        const uint32_t bucket = (judge->bucket + LLI_JUDGE_BUCKETS - i) % LLI_JUDGE_BUCKETS;

        record->naks[bucket] = record->asked[bucket] = 0;
    }
    record->turns = judge->turns;
}

/* A record of somebody of whom nothing is known. */
static struct lli_judged judge_new(uint64_t id, lli_ns now)
{
    return (struct lli_judged){.id = id, .heard_at = now, .back_at = now, .goal_at = now, .beyond_at = {LLI_NEVER, LLI_NEVER}};
}

/* The record of a member; a new one where it is not that member's, or of before it left, or was forgotten or expelled. */
static struct lli_judged *judge_record(const struct lli_judge *judge, const struct lli_members *members, uint32_t index, lli_ns now)
{
    struct lli_judged *record = &judge->table[index];
    struct lli_member *member = &members->table[index];
    const bool same = record->id == member->id, tell = same && record->tell, ordered = same && record->ordered;

    if (same && member->judged) {
        judge_turned(judge, record);
        return record;
    }
    member->judged = true;
    *record = judge_new(member->id, now);
    record->turns = judge->turns;
    /* Of what is not told yet, and of an order, nothing is forgotten. */
    record->tell = tell;
    record->ordered = ordered;
    return record;
}

static bool judge_is_of(const struct lli_members *members, uint32_t index, const struct lli_judged *record)
{
    return record->id != 0 && members->table[index].id == record->id;
}

/* --------------------------------------------------------------------------------------------- figures */

static uint64_t judge_sum(const uint32_t *buckets)
{
    uint64_t sum = 0;

    for (int i = 0; i < LLI_JUDGE_BUCKETS; i++)
        sum += buckets[i];
    return sum;
}

/* The next bucket's turn comes; those of receivers are emptied as these are looked at. */
static void judge_turn(struct lli_judge *judge, lli_ns now)
{
    const lli_ns piece = LLI_JUDGE_PERIOD / LLI_JUDGE_BUCKETS;

    for (int turns = 0; now >= judge->bucket_at && turns < LLI_JUDGE_BUCKETS; turns++) {
        judge->bucket = (judge->bucket + 1) % LLI_JUDGE_BUCKETS;
        judge->bucket_at += piece;
        judge->sent[judge->bucket] = 0;
        judge->turns++;
    }
    if (now >= judge->bucket_at)
        judge->bucket_at = now + piece;
}

/* Reports come less often where there are more receivers (section 7), or were when this one was told how often to report. */
static lli_ns judge_report_interval(const struct lli_judge *judge, const struct lli_members *members, const struct lli_judged *record)
{
    const struct lli_member *member = &members->table[record - judge->table];

    return lli_max(judge->policy.status * lli_max(1, members->count / 10), lli_members_distance(members, member, record->heard_at));
}

/* Nobody is silent before that. */
static uint64_t judge_limit(const struct lli_judge *judge, const struct lli_members *members, const struct lli_judged *record,
                            enum llm_threshold threshold)
{
    const uint64_t limit = judge->policy.limits[threshold];

    return threshold != LLM_THRESHOLD_SILENCE || limit == 0
               ? limit : limit * (judge_report_interval(judge, members, record) / lli_max(judge->policy.status, 1));
}

/* Nobody is expected to be heard as long as there is nothing to say. */
static lli_ns judge_silence(const struct lli_judge *judge, const struct lli_judged *record, lli_ns now)
{
    return record->next == 0 || record->next >= judge->counted || now < record->heard_at ? 0 : now - record->heard_at;
}

static lli_ns judge_debt(const struct lli_judged *record)
{
    return lli_max(record->debt.goal_ns, record->debt.before_ns);
}

static uint64_t judge_figure(const struct lli_judge *judge, const struct lli_judged *record, enum llm_threshold threshold,
                             lli_ns now)
{
    const uint64_t sent = judge_sum(judge->sent);

    switch (threshold) {
    case LLM_THRESHOLD_NAKS:
        return judge_sum(record->naks) * 1000000000 / LLI_JUDGE_PERIOD;
    case LLM_THRESHOLD_ASKED:
        return sent < JUDGE_PACKETS_MIN ? 0 : judge_sum(record->asked) * 1000000 / sent;
    case LLM_THRESHOLD_LAG_PACKETS:
        return record->lag_packets;
    case LLM_THRESHOLD_LAG_BYTES:
        return record->lag_bytes;
    case LLM_THRESHOLD_LAG_TIME:
        return record->lag_ns;
    case LLM_THRESHOLD_ACK_TIME:
        return judge_debt(record);
    case LLM_THRESHOLD_SILENCE:
        return judge_silence(judge, record, now);
    case LLM_THRESHOLD_NONE:
    case LLM_THRESHOLD_GROUP:
    case LLM_THRESHOLD_OPERATOR:
        break;
    }
    return 0;
}

/* How a receiver would have to be served by one of its figures. */
static struct lli_judge_level judge_level(const struct lli_judge *judge, const struct lli_members *members,
                                          struct lli_judged *record, enum llm_threshold threshold, lli_ns now)
{
    const struct lli_judge_policy *policy = &judge->policy;
    const uint64_t limit = judge_limit(judge, members, record, threshold);
    const bool patient = threshold == LLM_THRESHOLD_NAKS || threshold == LLM_THRESHOLD_ASKED;
    struct lli_judge_level level = {.threshold = threshold, .value = judge_figure(judge, record, threshold, now), .limit = limit};
    /* Who is new, or comes back from a silence, has some time to catch up. */
    const bool spared = (threshold == LLM_THRESHOLD_LAG_PACKETS || threshold == LLM_THRESHOLD_LAG_BYTES) &&
                        now - record->back_at < policy->recover;
    lli_ns *beyond_at = &record->beyond_at[threshold == LLM_THRESHOLD_ASKED];

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

/* By the worst of its figures. */
static void judge_weigh(const struct lli_judge *judge, const struct lli_members *members, struct lli_judged *record, lli_ns now)
{
    record->wanted = (struct lli_judge_level){.standing = LLI_STANDING_FINE};
    for (int threshold = LLM_THRESHOLD_NAKS; threshold < LLI_JUDGE_LIMITS; threshold++) {
        const struct lli_judge_level level = judge_level(judge, members, record, (enum llm_threshold)threshold, now);

        if (level.standing > record->wanted.standing)
            record->wanted = level;
    }
}

/* ------------------------------------------------------------------------------------------ what is heard */

static void judge_set(struct lli_judge *judge, struct lli_member *member, struct lli_judged *record,
                      struct lli_judge_level level, lli_ns now)
{
    /* An order is one whatever the policy, and so is its end. */
    const bool earnest = !judge->policy.dry || record->ordered || record->stands.threshold == LLM_THRESHOLD_OPERATOR;

    record->stands = level;
    record->decided_at = now;
    record->tell = judge->untold = true;
    record->notices = earnest ? JUDGE_NOTICES : 0;
    member->standing = judge->policy.dry && !record->ordered ? LLI_STANDING_FINE : level.standing;
    judge->decided[level.standing]++;
}

/* Others look at who counts, which changes by this: the next judgement says so. */
static void judge_lift(struct lli_judge *judge, struct lli_member *member, struct lli_judged *record, lli_ns now)
{
    judge_set(judge, member, record, (struct lli_judge_level){.standing = LLI_STANDING_FINE}, now);
    judge->lifted = true;
    judge->quiet = false;
}

/*
 * Whoever is heard is not silent: it is served again at once, as the NAK may be the first that is heard of it, and the time in
 * which it was silent is none by which it is behind. Who is not served for another reason is told so whenever it is heard.
 */
static struct lli_judged *judge_heard(struct lli_judge *judge, struct lli_members *members, uint32_t index, lli_ns now)
{
    struct lli_judged *record = judge_record(judge, members, index, now);
    const uint64_t limit = judge_limit(judge, members, record, LLM_THRESHOLD_SILENCE);

    if (limit != 0 && judge_silence(judge, record, now) >= limit) {
        record->goal = record->goal_ns = record->before_ns = 0;
        record->debt = (struct lli_judge_debt){.goal = 0};
        record->back_at = now;
    }
    record->heard_at = now;
    record->probes = 0;
    if (record->stands.standing == LLI_STANDING_SUSPENDED && record->stands.threshold == LLM_THRESHOLD_SILENCE && !record->ordered)
        judge_lift(judge, &members->table[index], record, now);
    if (!lli_member_counts(&members->table[index]))
        record->answer = true;
    return record;
}

bool lli_judge_heard(struct lli_judge *judge, struct lli_members *members, uint32_t index, lli_ns now)
{
    judge_heard(judge, members, index, now)->answer |= judge->shedding;
    judge->quiet = false;
    return judge->shedding || !lli_member_counts(&members->table[index]);
}

bool lli_judge_nak(struct lli_judge *judge, struct lli_members *members, uint32_t index, uint64_t packets, lli_ns now)
{
    struct lli_judged *record = judge_record(judge, members, index, now);

    record->naks[judge->bucket]++;
    record->asked[judge->bucket] = (uint32_t)lli_min(record->asked[judge->bucket] + packets, UINT32_MAX);
    return lli_judge_heard(judge, members, index, now);
}

/*
 * As the time by which it is behind: what was sent at one of its reports is its goal, and the next one when all before that is
 * acknowledged, or nobody waits for it any more. A transmitter that did not listen begins anew.
 */
static void judge_owes(const struct lli_judge *judge, struct lli_judged *record, lli_seq owes, lli_seq sent, lli_ns now)
{
    struct lli_judge_debt *debt = &record->debt;

    if (now - judge->judged_at > judge->policy.status)
        *debt = (struct lli_judge_debt){.goal = 0};
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
 * Behind by the time since more was sent than the receiver has, as far as its reports tell: it is given what was sent at one
 * of them as its goal, and the next one when it has reached that. It lags by no less than either took.
 */
void lli_judge_report(struct lli_judge *judge, struct lli_members *members, uint32_t index, lli_seq sent, lli_ns now)
{
    struct lli_judged *record = judge_heard(judge, members, index, now);

    record->next = members->table[index].next;
    record->lag_bytes = members->table[index].lag_bytes;
    /* Who fetches the past says nothing of what it has, and is behind from the report on that does. */
    if (record->next == 0) {
        record->lag_packets = record->lag_ns = record->goal = record->goal_ns = record->before_ns = 0;
        record->debt = (struct lli_judge_debt){.goal = 0};
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
    judge_owes(judge, record, members->table[index].owes, sent, now);
    judge->quiet &= record->lag_packets == 0 && !record->debt.owes && !record->answer;
}

/* -------------------------------------------------------------------------------------------- expulsions */

/* What is remembered of one that was expelled, or the place for it, of the longest ago. */
static struct lli_judge_return *judge_return(const struct lli_judge *judge, uint64_t id)
{
    struct lli_judge_return *found = judge->returns;

    for (uint32_t i = 0; i < LLI_JUDGE_RETURNS; i++) {
        struct lli_judge_return *at = &judge->returns[i];

        if (at->id == id)
            return at;
        if (found->id != 0 && (at->id == 0 || at->since < found->since))
            found = at;
    }
    return found;
}

/* For how long one is expelled: twice as long as the time before, so that one for whom a policy has no place comes ever less often. */
static lli_ns judge_rejoin(const struct lli_judge *judge, const struct lli_judged *record, lli_ns now)
{
    const lli_ns rejoin = judge->policy.rejoin, most = lli_max(rejoin, lli_min(rejoin * LLI_JUDGE_REJOIN_TIMES, LLI_JUDGE_REJOIN_MAX));
    struct lli_judge_return *last = judge_return(judge, record->id);
    const bool again = last->id == record->id && now - last->since < LLI_JUDGE_REJOIN_MAX;

    *last = (struct lli_judge_return){
        .id = record->id, .rejoin = again ? lli_min(2 * last->rejoin, most) : rejoin, .since = now};
    return last->rejoin;
}

/* -------------------------------------------------------------------------------------------- decisions */

/* What the figures ask for, as far as the policy goes; where most suffer nobody is served worse than before. */
static struct lli_judge_level judge_allowed(const struct lli_judge *judge, const struct lli_judged *record, bool most_suffer)
{
    struct lli_judge_level level = record->wanted;
    enum lli_standing most = judge->policy.most;

    if (most_suffer)
        most = (enum lli_standing)lli_min(most, lli_max(record->stands.standing, LLI_STANDING_WARNED));
    if (record->ordered)
        return (struct lli_judge_level){.standing = LLI_STANDING_SUSPENDED, .threshold = LLM_THRESHOLD_OPERATOR};
    if (level.standing > most)
        level.standing = most;
    return level;
}

/* Whether it is over with what a receiver was suspended for, at once: silence, or an order. */
static bool judge_is_lifted(const struct lli_judged *record, struct lli_judge_level level)
{
    const struct lli_judge_level *stands = &record->stands;

    return stands->standing == LLI_STANDING_SUSPENDED && level.standing < LLI_STANDING_SUSPENDED &&
           (stands->threshold == LLM_THRESHOLD_SILENCE || stands->threshold == LLM_THRESHOLD_OPERATOR);
}

static void judge_one(struct lli_judge *judge, struct lli_member *member, struct lli_judged *record, bool most_suffer, lli_ns now)
{
    const struct lli_judge_policy *policy = &judge->policy;
    const struct lli_judge_level *stands = &record->stands;
    struct lli_judge_level level = judge_allowed(judge, record, most_suffer);

    if (record->wanted.standing != LLI_STANDING_FINE)
        record->bad_at = now;
    if (stands->standing == LLI_STANDING_SUSPENDED && policy->most == LLI_STANDING_EXPELLED && !most_suffer && !record->ordered &&
        record->bad_at == now && now - record->decided_at >= policy->expel) {
        level = *stands;
        level.standing = LLI_STANDING_EXPELLED;
        record->rejoin = judge_rejoin(judge, record, now);
    }
    if (level.standing > stands->standing || judge_is_lifted(record, level))
        judge_set(judge, member, record, level, now);
    else if (level.standing == LLI_STANDING_SUSPENDED && stands->threshold == LLM_THRESHOLD_SILENCE &&
             level.threshold != LLM_THRESHOLD_SILENCE)
        judge_set(judge, member, record, level, now);
    else if (stands->standing != LLI_STANDING_FINE && level.standing == LLI_STANDING_FINE && now - record->bad_at >= policy->recover)
        judge_set(judge, member, record, level, now);
}

/* An expelled receiver may come back when its time is over, and nothing but that time is remembered of it. True if it is. */
static bool judge_is_over(struct lli_judge *judge, struct lli_members *members, uint32_t index, lli_ns now)
{
    struct lli_judged *record = &judge->table[index];
    struct lli_judge_return *last;

    if (record->stands.standing != LLI_STANDING_EXPELLED)
        return false;
    if (record->rejoin == 0 || now - record->decided_at < record->rejoin)
        return true;
    judge_set(judge, &members->table[index], record, (struct lli_judge_level){.standing = LLI_STANDING_FINE}, now);
    record->notices = 0;
    members->table[index].judged = false;
    last = judge_return(judge, record->id);
    if (last->id == record->id)
        last->since = now;
    if (!judge->policy.dry)
        lli_members_del(members, record->id);
    return true;
}

/* Of whom the latest report is overdue is asked for one: it may have been lost. */
static bool judge_is_probed(const struct lli_judge *judge, const struct lli_members *members, struct lli_judged *record, lli_ns now)
{
    const lli_ns interval = judge_report_interval(judge, members, record);

    return judge->policy.most >= LLI_STANDING_SUSPENDED && record->stands.standing < LLI_STANDING_SUSPENDED &&
           judge_silence(judge, record, now) > interval + interval / 5 && record->probes < JUDGE_PROBES && ++record->probes > 0;
}

static void judge_notify(struct lli_judge *judge, const struct lli_members *members, struct lli_judged *record, lli_ns now)
{
    if (record->notices > 0) {
        record->notices--;
        record->answer = true;
    }
    record->notify |= record->answer || judge_is_probed(judge, members, record, now);
    record->answer = false;
    judge->unsent |= record->notify;
}

/* More than half of those that reported: it is told when it begins, and when it has been over for a while. */
static bool judge_group(struct lli_judge *judge, lli_ns now)
{
    const bool most_suffer = judge->slice.suffering > judge->slice.receivers / 2;

    if (most_suffer)
        judge->group_at = now;
    /* Of a single receiver all is said by its own verdict. */
    if (most_suffer ? !judge->group && judge->slice.receivers > 1 : judge->group && now - judge->group_at >= judge->policy.recover) {
        judge->group = most_suffer;
        judge->group_tell = judge->untold = judge->policy.most != LLI_STANDING_FINE;
    }
    return most_suffer;
}

/* Positions with an odd factor, modulo a power of two: consecutive ones lie far apart, in no pattern that receivers may come in. */
static uint32_t judge_place(const struct lli_judge_slice *slice, uint32_t position)
{
    return slice->count == 1 ? position : (position * 0x9e3779b1u) & slice->mask;
}

static struct lli_judge_slice judge_slice(const struct lli_members *members, uint32_t index, uint32_t count)
{
    uint32_t places = 1, size;

    if (count == 1)
        return (struct lli_judge_slice){.count = 1, .to = members->end};
    while (places < members->end)
        places *= 2;
    size = (places + count - 1) / count;
    return (struct lli_judge_slice){.index = index, .count = count, .from = index * size,
                                    .to = (uint32_t)lli_min((index + 1) * size, places), .mask = places - 1};
}

/* Goes on to the next slice; whoever did not listen for a while looks at all at once. */
static void judge_go_on(struct lli_judge *judge, const struct lli_members *members, bool all)
{
    const uint32_t count = all ? 1 : (uint32_t)lli_max((members->end + LLI_JUDGE_SLICE - 1) / LLI_JUDGE_SLICE, 1);
    const bool goes_on = count == judge->slice.count && judge->slice.index + 1 < count;

    judge->slice = judge_slice(members, goes_on ? judge->slice.index + 1 : 0, count);
    if (!goes_on) {
        judge->round = (struct lli_judge_slice){.count = count};
        judge->round_quiet = true;
    }
    judge->cursor = judge->slice.from;
    judge->unsent = false;
}

/* Figures of all receivers: sums once all were judged; until then the first slice stands for the others. */
static void judge_sum_up(struct lli_judge *judge)
{
    const struct lli_judge_slice *slice = &judge->slice;
    struct lli_judge_slice *round = &judge->round;

    round->receivers += slice->receivers;
    round->suffering += slice->suffering;
    if (slice->index + 1 == slice->count) {
        judge->receivers = round->receivers;
        judge->suffering = round->suffering;
    } else if (judge->receivers == 0) {
        judge->receivers = slice->receivers * slice->count;
        judge->suffering = slice->suffering * slice->count;
    }
}

static void judge_weigh_slice(struct lli_judge *judge, struct lli_members *members, lli_ns away, lli_ns now)
{
    for (uint32_t at = judge->slice.from; at < judge->slice.to; at++) {
        const uint32_t i = judge_place(&judge->slice, at);
        struct lli_judged *record;

        if (i >= members->end || members->table[i].id == 0)
            continue;
        judge->looked_at++;
        record = judge_record(judge, members, i, now);
        record->heard_at = lli_min(record->heard_at + away, now);
        if (away > 0)
            record->debt = (struct lli_judge_debt){.owes = record->debt.owes};
        judge_weigh(judge, members, record, now);
        /* Who has not reported counts if it suffers: the only receiver is the only one before its first report, too. */
        if ((record->next == 0 && record->wanted.standing == LLI_STANDING_FINE) || record->stands.standing == LLI_STANDING_EXPELLED)
            continue;
        judge->slice.receivers++;
        judge->slice.suffering += record->wanted.standing != LLI_STANDING_FINE ||
                                  (record->stands.standing == LLI_STANDING_SUSPENDED && !record->ordered);
    }
    judge_sum_up(judge);
}

bool lli_judge_all(struct lli_judge *judge, struct lli_members *members, lli_seq sent, lli_ns now)
{
    /* Who did not listen cannot tell who was silent. */
    const lli_ns away = now - judge->judged_at > judge->policy.status ? now - judge->judged_at : 0;
    bool quiet = true, changed = judge->lifted, most_suffer;

    judge->lifted = false;
    judge_turn(judge, now);
    judge_go_on(judge, members, away > 0);
    judge->sent[judge->bucket] += (uint32_t)lli_min(sent - judge->counted, UINT32_MAX / 2);
    judge->counted = sent;
    judge->judged_at = now;
    judge_weigh_slice(judge, members, away, now);
    most_suffer = judge_group(judge, now);
    for (uint32_t at = judge->slice.from; at < judge->slice.to; at++) {
        const uint32_t i = judge_place(&judge->slice, at);
        struct lli_judged *record;
        struct lli_member *member;
        enum lli_standing before;

        if (i >= members->end || members->table[i].id == 0)
            continue;
        member = &members->table[i];
        record = &judge->table[i];
        before = member->standing;
        if (!judge_is_over(judge, members, i, now))
            judge_one(judge, member, record, most_suffer, now);
        changed |= member->standing != before;
        judge_notify(judge, members, record, now);
        quiet &= record->stands.standing == LLI_STANDING_FINE && record->notices == 0 && !record->debt.owes &&
                 (record->next == 0 || record->next >= sent);
    }
    judge->round_quiet &= quiet;
    judge->quiet = judge->slice.index + 1 == judge->slice.count && judge->round_quiet && !judge->group && judge_sum(judge->sent) == 0;
    return changed;
}

/* ---------------------------------------------------------------------------------------------- results */

bool lli_judge_notice(struct lli_judge *judge, const struct lli_members *members, struct lli_wire_notice *notice,
                      uint32_t *index)
{
    while (judge->unsent && judge->cursor < judge->slice.to) {
        const uint32_t place = judge_place(&judge->slice, judge->cursor++);
        struct lli_judged *record;
        const lli_ns now = judge->judged_at;
        struct lli_judge_level level;

        if (place >= members->end || !judge->table[place].notify)
            continue;
        record = &judge->table[place];
        record->notify = false;
        if (!judge_is_of(members, place, record))
            continue;
        level = record->stands;
        judge_turned(judge, record);
        if (judge->shedding && level.standing < LLI_STANDING_SUSPENDED)
            level = (struct lli_judge_level){.standing = LLI_STANDING_SUSPENDED, .threshold = LLM_THRESHOLD_OPERATOR};
        else if (judge->policy.dry && !record->ordered)
            level = (struct lli_judge_level){.standing = LLI_STANDING_FINE};
        *notice = (struct lli_wire_notice){
            .receiver = record->id,
            .decided_at = record->decided_at,
            .value = level.value,
            .limit = level.limit,
            .lag_ns = record->lag_ns,
            .silent_ns = judge_silence(judge, record, now),
            .naks_per_s = (uint32_t)lli_min(judge_figure(judge, record, LLM_THRESHOLD_NAKS, now), UINT32_MAX),
            .asked_ppm = (uint32_t)lli_min(judge_figure(judge, record, LLM_THRESHOLD_ASKED, now), UINT32_MAX),
            .lag_packets = (uint32_t)lli_min(record->lag_packets, UINT32_MAX),
            .receivers = judge->receivers,
            .suffering = judge->suffering,
            .rejoin_ms = (uint32_t)lli_min((record->rejoin + 999999) / 1000000, UINT32_MAX),
            .standing = (uint8_t)level.standing,
            .threshold = (uint8_t)level.threshold,
        };
        *index = place;
        return true;
    }
    judge->unsent = false;
    return false;
}

static void judge_event(struct lli_judge *judge, struct lli_judge_level level, struct llm_event *event)
{
    static const enum llm_event_kind kinds[] = {LLM_EVENT_READMITTED, LLM_EVENT_WARNED, LLM_EVENT_UNICAST_ONLY,
                                                LLM_EVENT_SUSPENDED, LLM_EVENT_EXPELLED};

    judge->verdict = (struct llm_verdict){.threshold = level.threshold,
                                          .value = level.value,
                                          .limit = level.limit,
                                          .receivers = judge->receivers,
                                          .suffering = judge->suffering,
                                          .dry_run = judge->policy.dry && level.threshold != LLM_THRESHOLD_OPERATOR};
    *event = (struct llm_event){.kind = kinds[level.standing], .verdict = &judge->verdict};
}

bool lli_judge_event(struct lli_judge *judge, struct llm_event *event)
{
    const lli_ns now = judge->judged_at;

    if (judge->group_tell) {
        judge->group_tell = false;
        judge_event(judge,
                    (struct lli_judge_level){.standing = judge->group ? LLI_STANDING_WARNED : LLI_STANDING_FINE,
                                             .threshold = LLM_THRESHOLD_GROUP,
                                             .value = judge->suffering,
                                             .limit = judge->receivers / 2 + 1},
                    event);
        return true;
    }
    for (uint32_t i = 0; judge->untold && i < judge->limit; i++) {
        struct lli_judged *record = &judge->table[judge->told++];

        judge->told = judge->told == judge->limit ? 0 : judge->told;
        if (!record->tell)
            continue;
        record->tell = false;
        judge_turned(judge, record);
        judge_event(judge, record->stands, event);
        judge->verdict.receiver = record->id;
        judge->verdict.rejoin_ns = record->stands.standing == LLI_STANDING_EXPELLED ? record->rejoin : 0;
        judge->verdict.naks_per_s = judge_figure(judge, record, LLM_THRESHOLD_NAKS, now);
        judge->verdict.asked_ppm = judge_figure(judge, record, LLM_THRESHOLD_ASKED, now);
        judge->verdict.lag_packets = record->lag_packets;
        judge->verdict.lag_bytes = record->lag_bytes;
        judge->verdict.ack_ns = judge_debt(record);
        judge->verdict.lag_ns = record->lag_ns;
        judge->verdict.silent_ns = judge_silence(judge, record, now);
        return true;
    }
    judge->untold = false;
    return false;
}

bool lli_judge_shed(struct lli_judge *judge, struct lli_members *members, uint64_t receiver, bool on, lli_ns now)
{
    const uint32_t index = receiver == 0 ? LLI_MEMBER_NONE : lli_members_get(members, receiver);
    struct lli_judged *record;

    judge->quiet = false;
    if (receiver == 0) {
        judge->shedding = on;
        for (uint32_t i = 0; i < judge->limit; i++)
            judge->table[i].notices = JUDGE_NOTICES;
        return true;
    }
    if (index == LLI_MEMBER_NONE)
        return false;
    record = judge_record(judge, members, index, now);
    record->ordered = on;
    if (on && record->stands.standing < LLI_STANDING_SUSPENDED)
        judge_set(judge, &members->table[index], record,
                  (struct lli_judge_level){.standing = LLI_STANDING_SUSPENDED, .threshold = LLM_THRESHOLD_OPERATOR}, now);
    return true;
}
