/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stat_view.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <llm/llm.h>

#include "stat_print.h"
#include "stat_terminal.h"

enum { VIEW_ROWS = 8 }; /* members or sessions shown of each object, those that lag most first */

/* First character of each line of the view: how it is drawn. */
#define NORMAL " "
#define TITLE "!"
#define BAD "#"

/* ------------------------------------------------------------------------------------------------ numbers */

/* Formats a number as "1234", "56.7k", "8.9M": six characters at most. Valid for eight calls. */
static const char *short_number(double value)
{
    static char texts[8][16];
    static unsigned next;
    static const char units[] = {' ', 'k', 'M', 'G', 'T', 'P', 'E'};
    char *text = texts[next++ % 8];
    size_t unit = 0;

    while (value >= 9999.5 && unit < sizeof units - 1) {
        value /= 1000;
        unit++;
    }
    (void)snprintf(text, sizeof texts[0],
                   value >= 99.95 || value == (double)(long)value ? "%.0f%.*s" : "%.1f%.*s", value, unit > 0,
                   &units[unit]);
    return text;
}

/* Formats nanoseconds for people. Valid for eight calls. */
static const char *short_time(uint64_t ns)
{
    static char texts[8][16];
    static unsigned next;
    char *text = texts[next++ % 8];

    if (ns < 1000)
        (void)snprintf(text, sizeof texts[0], "%" PRIu64 " ns", ns);
    else if (ns < 1000000)
        (void)snprintf(text, sizeof texts[0], "%.1f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        (void)snprintf(text, sizeof texts[0], "%.1f ms", (double)ns / 1e6);
    else
        (void)snprintf(text, sizeof texts[0], "%.1f s", (double)ns / 1e9);
    return text;
}

/* Returns the growth of a counter of an object, per second. */
static double rate(const struct stat_source *source, uint32_t object, const char *name)
{
    const struct stat_snapshot *now = &source->now;
    const double seconds = stat_watch_seconds(source);

    for (uint32_t i = 0; i < now->table.rows && seconds > 0; i++) {
        if (now->rows[i].object != object || strcmp(now->rows[i].name, name) != 0)
            continue;
        const uint64_t then = stat_before(&source->before, now, i);

        return now->values[i] > then ? (double)(now->values[i] - then) / seconds : 0;
    }
    return 0;
}

static const char *short_rate(const struct stat_source *source, uint32_t object, const char *name)
{
    return short_number(rate(source, object, name));
}

static const char *short_value(const struct stat_source *source, uint32_t object, const char *name)
{
    return short_number((double)stat_value(&source->now, object, name));
}

/* ------------------------------------------------------------------------------------------------ objects */

/* Prints the histograms of an object, of samples since the previous view. */
static void view_histograms(FILE *to, const struct stat_source *source, uint32_t object)
{
    const double seconds = stat_watch_seconds(source);

    for (uint32_t i = 0; i < source->now.table.histograms; i++) {
        const struct llm_stats_histogram *histogram = &source->now.histograms[i];
        const struct llm_stats_histogram *before = stat_histogram_before(&source->before, &source->now, i);
        const size_t length = strlen(histogram->name);
        const bool is_time = length > 3 && strcmp(histogram->name + length - 3, "_ns") == 0;

        if (histogram->object != object || histogram->count == 0)
            continue;
        fprintf(to, NORMAL "      %-20s", histogram->name);
        for (int j = 0; j < 4; j++) {
            static const double shares[] = {0.5, 0.99, 0.999, 1};
            static const char *const names[] = {"p50", "p99", "p99.9", "most"};
            const uint64_t value = stat_percentile(histogram, before, shares[j]);

            fprintf(to, " %s %-9s", names[j], is_time ? short_time(value) : short_number((double)value));
        }
        fprintf(to, " ever %s", is_time ? short_time(histogram->max) : short_number((double)histogram->max));
        if (before != NULL && seconds > 0 && histogram->count >= before->count)
            fprintf(to, ", %s/s", short_number((double)(histogram->count - before->count) / seconds));
        fputc('\n', to);
    }
}

/* Prints the listed counters where they are not zero: faults since the start. */
static void view_troubles(FILE *to, const struct stat_source *source, uint32_t object,
                          const char *const *names)
{
    bool any = false;

    for (; *names != NULL; names++) {
        const uint64_t value = stat_value(&source->now, object, *names);
        const double now = rate(source, object, *names);

        if (value == 0)
            continue;
        fprintf(to, "%s%s %s", any ? ", " : NORMAL "      since start: ", *names,
                short_number((double)value));
        if (now > 0)
            fprintf(to, " (+%s/s)", short_number(now));
        any = true;
    }
    if (any)
        fputc('\n', to);
}

/* Finds the children of an object that lag most. Returns the number of all children. */
static int view_worst(const struct stat_snapshot *now, uint32_t parent, uint32_t worst[VIEW_ROWS])
{
    uint64_t lags[VIEW_ROWS] = {0};
    int count = 0;

    for (uint32_t i = 0; i < now->table.objects; i++) {
        uint64_t lag;
        int at;

        if (now->objects[i].parent != parent || i == parent || now->objects[i].kind == LLM_STATS_TOPIC)
            continue;
        lag = stat_value(now, i, "lag_packets");
        at = count < VIEW_ROWS ? count : VIEW_ROWS;
        count++;
        while (at > 0 && lag > lags[at - 1])
            at--;
        if (at == VIEW_ROWS)
            continue;
        memmove(&worst[at + 1], &worst[at], (size_t)(VIEW_ROWS - 1 - at) * sizeof worst[0]);
        memmove(&lags[at + 1], &lags[at], (size_t)(VIEW_ROWS - 1 - at) * sizeof lags[0]);
        worst[at] = i;
        lags[at] = lag;
    }
    return count;
}

static double heard(const struct stat_source *source, uint32_t object, const char *name)
{
    const uint64_t at = stat_value(&source->now, object, name);

    return at == 0 || at > source->now.table.clock_at ? 0 : (double)(source->now.table.clock_at - at) / 1e9;
}

static void view_more(FILE *to, int count)
{
    if (count > VIEW_ROWS)
        fprintf(to, NORMAL "        and %d more\n", count - VIEW_ROWS);
}

static void view_members(FILE *to, const struct stat_source *source, uint32_t transmitter)
{
    uint32_t worst[VIEW_ROWS];
    const int count = view_worst(&source->now, transmitter, worst);

    if (count > 0)
        fprintf(to, NORMAL "        %-16s %9s %9s %8s %8s %8s\n", "receiver", "lag pkt", "rtt", "NAK/s",
                "lost/s", "heard s");
    for (int i = 0; i < count && i < VIEW_ROWS; i++) {
        const uint32_t member = worst[i];
        const uint64_t lag = stat_value(&source->now, member, "lag_packets");
        const uint64_t window = stat_value(&source->now, member, "member_window_packets");
        const double lost = rate(source, member, "member_packets_lost");
        const uint64_t limit = stat_value(&source->now, member, "member_limited_by");
        /* A lag of more than half of the window: the member will lose packets soon. */
        const bool slow = lost > 0 || (lag > 64 && 2 * lag > window);

        fprintf(to, "%s        %016" PRIx64 " %9s %9s %8s %8s %8.1f%s%s%s\n",
                slow || limit != 0 ? BAD : NORMAL, source->now.objects[member].id, short_number((double)lag),
                short_time(stat_value(&source->now, member, "member_rtt_ns")),
                short_rate(source, member, "member_naks"), short_number(lost),
                heard(source, member, "member_heard_at"), slow ? "  SLOW" : "",
                limit != 0 ? "  limited by " : "", limit != 0 ? llm_limit_name((enum llm_limit)limit) : "");
    }
    view_more(to, count);
}

static void view_sessions(FILE *to, const struct stat_source *source, uint32_t receiver)
{
    uint32_t worst[VIEW_ROWS];
    const int count = view_worst(&source->now, receiver, worst);

    if (count > 0)
        fprintf(to, NORMAL "        %-16s %9s %9s %9s %8s %8s %8s %8s\n", "session", "lag pkt", "missing",
                "repair", "msg/s", "NAK/s", "lost/s", "heard s");
    for (int i = 0; i < count && i < VIEW_ROWS; i++) {
        const uint32_t session = worst[i];
        const double lost = rate(source, session, "session_packets_lost");
        const bool silent = stat_value(&source->now, session, "session_silent") != 0;

        fprintf(to, "%s        %016" PRIx64 " %9s %9s %9s %8s %8s %8s %8.1f%s%s\n",
                lost > 0 || silent ? BAD : NORMAL, source->now.objects[session].id,
                short_value(source, session, "lag_packets"), short_value(source, session, "packets_missing"),
                short_time(stat_value(&source->now, session, "session_repair_rtt_ns")),
                short_rate(source, session, "session_messages"), short_rate(source, session, "session_naks"),
                short_number(lost), heard(source, session, "session_heard_at"), lost > 0 ? "  LOSING" : "",
                silent ? "  SILENT" : "");
    }
    view_more(to, count);
}

/* Prints the topics of a transmitter, or of a receiver's sessions, with most messages a second. */
static void view_topics(FILE *to, const struct stat_source *source, uint32_t owner)
{
    const struct llm_stats_object *objects = source->now.objects;
    uint32_t busiest[VIEW_ROWS];
    double rates[VIEW_ROWS];
    int count = 0;

    for (uint32_t i = 0; i < source->now.table.objects; i++) {
        int at = count < VIEW_ROWS ? count : VIEW_ROWS;
        double now;

        if (objects[i].kind != LLM_STATS_TOPIC ||
            (objects[i].parent != owner && objects[objects[i].parent].parent != owner))
            continue;
        now = rate(source, i, "topic_messages");
        count++;
        while (at > 0 && now > rates[at - 1])
            at--;
        if (at == VIEW_ROWS)
            continue;
        memmove(&busiest[at + 1], &busiest[at], (size_t)(VIEW_ROWS - 1 - at) * sizeof busiest[0]);
        memmove(&rates[at + 1], &rates[at], (size_t)(VIEW_ROWS - 1 - at) * sizeof rates[0]);
        busiest[at] = i;
        rates[at] = now;
    }
    if (count > 0)
        fprintf(to, NORMAL "        %-24s %9s %9s %9s\n", "topic", "msg/s", "Mbit/s", "messages");
    for (int i = 0; i < count && i < VIEW_ROWS; i++)
        fprintf(to, NORMAL "        %-24.24s %9s %9s %9s\n", objects[busiest[i]].label,
                short_number(rates[i]), short_number(rate(source, busiest[i], "topic_bytes") * 8 / 1e6),
                short_value(source, busiest[i], "topic_messages"));
    view_more(to, count);
}

/* Prints the bottleneck, if there is one, by the watch of the object's context. */
static void view_limit(FILE *to, const struct stat_source *source, uint32_t object)
{
    const uint64_t limit = stat_value(&source->now, object, "limited_by");
    const double away = rate(source, object, "away_ns") / 1e7;

    if (limit == LLM_LIMIT_NONE)
        return;
    fprintf(to, BAD "      limited by %s", llm_limit_name((enum llm_limit)limit));
    if (limit == LLM_LIMIT_APPLICATION)
        fprintf(to, ": away for %.0f %% of the time, at most %s", away,
                short_time(stat_value(&source->now, object, "away_ns_max")));
    fputc('\n', to);
}

static void view_transmitter(FILE *to, const struct stat_source *source, uint32_t object)
{
    static const char *const troubles[] = {
        "packets_repaired",  "nak_packets_gone", "send_blocked",      "receivers_lost",
        "receivers_refused", "answers_dropped",  "control_malformed", NULL};

    fprintf(to, TITLE "  transmitter %s\n", source->now.objects[object].label);
    fprintf(to,
            NORMAL
            "      %s msg/s, %s pkt/s, %s Mbit/s, %s NAK/s, %s repairs/s, %s receivers, rtt %s, unsent %s\n",
            short_rate(source, object, "messages_sent"), short_rate(source, object, "packets_sent"),
            short_number(rate(source, object, "bytes_sent") * 8 / 1e6),
            short_rate(source, object, "naks_received"), short_rate(source, object, "packets_repaired"),
            short_value(source, object, "receivers"), short_time(stat_value(&source->now, object, "rtt_ns")),
            short_value(source, object, "unsent_packets"));
    view_limit(to, source, object);
    view_troubles(to, source, object, troubles);
    view_histograms(to, source, object);
    view_members(to, source, object);
    view_topics(to, source, object);
}

/* Prints the lines of a receiver whose channel has two: the one that is late is seldom first. */
static void view_lines(FILE *to, const struct stat_source *source, uint32_t object)
{
    static const struct {
        const char *first, *second, *lost, *late, *down;
    } names[] = {
        {"line_1_first", "line_1_second", "line_1_lost", "line_1_late_ns", "line_1_down"},
        {"line_2_first", "line_2_second", "line_2_lost", "line_2_late_ns", "line_2_down"},
    };
    const uint64_t late[] = {stat_value(&source->now, object, names[0].late),
                             stat_value(&source->now, object, names[1].late)};

    if (stat_value(&source->now, object, names[0].first) + stat_value(&source->now, object, names[1].first) ==
        0)
        return;
    fprintf(to, NORMAL "        %-4s %9s %9s %9s %9s\n", "line", "first/s", "second/s", "lost/s", "late");
    for (int i = 0; i < 2; i++) {
        const uint64_t down = stat_value(&source->now, object, names[i].down);

        fprintf(to, "%s        %-4d %9s %9s %9s %9s%s%s\n", down > 0 ? BAD : NORMAL, i + 1,
                short_rate(source, object, names[i].first), short_rate(source, object, names[i].second),
                short_rate(source, object, names[i].lost), short_time(late[i]),
                late[i] > late[1 - i] ? "  LATE" : "", down > 0 ? "  DOWN" : "");
    }
}

static void view_receiver(FILE *to, const struct stat_source *source, uint32_t object)
{
    static const char *const troubles[] = {"messages_lost",     "gaps",
                                           "packets_missed",    "packets_lost",
                                           "window_overflow",   "reorder_full",
                                           "sessions_dropped",  "data_malformed",
                                           "control_malformed", NULL};

    fprintf(to, TITLE "  receiver %s\n", source->now.objects[object].label);
    fprintf(
        to,
        "%s      %s msg/s, %s pkt/s, %s Mbit/s, %s lost/s, %s NAK/s, %s recovered/s, %s sessions, held %s\n",
        rate(source, object, "messages_lost") > 0 ? BAD : NORMAL,
        short_rate(source, object, "messages_delivered"), short_rate(source, object, "packets_received"),
        short_number(rate(source, object, "bytes_received") * 8 / 1e6),
        short_rate(source, object, "messages_lost"), short_rate(source, object, "naks_sent"),
        short_rate(source, object, "packets_recovered"), short_value(source, object, "sessions"),
        short_value(source, object, "reorder_packets"));
    view_limit(to, source, object);
    view_troubles(to, source, object, troubles);
    view_histograms(to, source, object);
    view_lines(to, source, object);
    view_sessions(to, source, object);
    view_topics(to, source, object);
}

static void view_store(FILE *to, const struct stat_source *source, uint32_t object)
{
    static const char *const troubles[] = {"store_gaps",           "store_packets_unrecorded", "store_stalls",
                                           "store_write_failures", "store_sessions_stopped",   NULL};

    fprintf(to, TITLE "  store %s\n", source->now.objects[object].label);
    fprintf(to,
            "%s      %s pkt/s, %s MB/s written, %s sessions, not durable %s packets for %s, %s MB free, "
            "slowest write %s\n",
            rate(source, object, "store_packets_unrecorded") > 0 ? BAD : NORMAL,
            short_rate(source, object, "store_packets"),
            short_number(rate(source, object, "store_block_bytes") / 1e6),
            short_value(source, object, "store_sessions"),
            short_value(source, object, "store_waiting_packets"),
            short_time(stat_value(&source->now, object, "store_lag_ns")),
            short_number((double)stat_value(&source->now, object, "store_free_bytes") / 1e6),
            short_time(stat_value(&source->now, object, "store_write_ns_max")));
    view_troubles(to, source, object, troubles);
}

/* A duration for people, in its largest unit. */
static void view_duration(FILE *to, uint64_t seconds)
{
    if (seconds >= 2 * 86400)
        fprintf(to, "%" PRIu64 " d", seconds / 86400);
    else if (seconds >= 2 * 3600)
        fprintf(to, "%" PRIu64 " h", seconds / 3600);
    else
        fprintf(to, "%" PRIu64 " min", (seconds + 59) / 60);
}

/* Prints the epoch of a transport with keys. In its last hour it stands out, as the next one may be missing. */
static void view_keys(FILE *to, const struct stat_source *source, uint32_t object)
{
    const uint64_t epoch = stat_value(&source->now, object, "keys_epoch");
    const uint64_t left = stat_value(&source->now, object, "keys_left_s");

    if (epoch == 0) {
        fprintf(to, BAD "      keys: no epoch is valid, and nothing is sent\n");
        return;
    }
    fprintf(to, "%s      keys: epoch %" PRIu64 ", in use for ", left < 3600 ? BAD : NORMAL, epoch);
    view_duration(to, stat_value(&source->now, object, "keys_age_s"));
    fprintf(to, ", ends in ");
    view_duration(to, left);
    fputc('\n', to);
}

/* Prints all counters that are not zero: those of a transport mostly count faults. */
static void view_other(FILE *to, const struct stat_source *source, uint32_t object)
{
    const struct stat_snapshot *now = &source->now;
    const char *names[64] = {NULL};
    bool has_keys = false;
    size_t count = 0;

    fprintf(to, TITLE "  %s %s\n", stat_kind_name(now->objects[object].kind), now->objects[object].label);
    for (uint32_t i = 0; i < now->table.rows && count < sizeof names / sizeof names[0] - 1; i++) {
        if (now->rows[i].object != object)
            continue;
        has_keys |= strcmp(now->rows[i].name, "keys_epoch") == 0;
        if (strncmp(now->rows[i].name, "keys_", 5) != 0)
            names[count++] = now->rows[i].name;
    }
    if (has_keys)
        view_keys(to, source, object);
    view_troubles(to, source, object, names);
    view_histograms(to, source, object);
}

/* --------------------------------------------------------------------------------------------------- draw */

static void view_source(FILE *to, const struct stat_source *source)
{
    const bool bad = source->fault != STAT_OK || !source->now.alive;

    fputs(bad ? BAD : TITLE, to);
    stat_print_title(to, source);
    fputc('\n', to);
    for (uint32_t i = 0; source->fault == STAT_OK && i < source->now.table.objects; i++) {
        switch (source->now.objects[i].kind) {
        case LLM_STATS_TRANSMITTER:
            view_transmitter(to, source, i);
            break;
        case LLM_STATS_RECEIVER:
            view_receiver(to, source, i);
            break;
        case LLM_STATS_STORE:
            view_store(to, source, i);
            break;
        case LLM_STATS_TRANSPORT:
        case LLM_STATS_LISTENER:
        case LLM_STATS_FAILOVER:
            view_other(to, source, i);
            break;
        case LLM_STATS_CONTEXT:
            view_histograms(to, source, i);
            break;
        default:
            break;
        }
    }
    fputs(NORMAL "\n", to);
}

/* Draws as many lines as fit, from line `top` on, which is corrected if there are fewer. */
static void view_draw(const struct stat_watch *watch, double interval, int *top)
{
    char *text = NULL, *line;
    size_t size = 0;
    int alive = 0, bad = 0, lines = 0;
    FILE *to = open_memstream(&text, &size);

    if (to == NULL)
        return;
    for (int i = 0; i < watch->count; i++) {
        bad += watch->sources[i].fault != STAT_OK;
        alive += watch->sources[i].fault == STAT_OK && watch->sources[i].now.alive;
    }
    for (int i = 0; i < watch->count; i++)
        view_source(to, &watch->sources[i]);
    if (watch->count == 0)
        fputs(NORMAL "no counters files: set stats_directory or LLM_STATS_DIRECTORY to write them\n", to);
    (void)fclose(to);
    for (line = text; *line != '\0'; line++)
        lines += *line == '\n';
    terminal_begin();
    terminal_line(TITLE[0],
                  "llm-stat %s: %d alive, %d dead, %d unreadable; every %.1f s; q quits, arrows scroll",
                  watch->directory, alive, watch->count - alive - bad, bad, interval);
    if (*top > lines - (terminal_height() - 1))
        *top = lines - (terminal_height() - 1);
    if (*top < 0)
        *top = 0;
    line = text;
    for (int i = 0; *line != '\0'; i++) {
        char *end = strchr(line, '\n');

        *end = '\0';
        if (i >= *top)
            terminal_line(line[0], "%s", line + 1);
        line = end + 1;
    }
    terminal_end();
    free(text);
}

static double seconds_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Handles a key. False: it ends the view. */
static bool view_key(enum terminal_key key, int *top)
{
    switch (key) {
    case KEY_QUIT:
        return false;
    case KEY_UP:
        --*top;
        break;
    case KEY_DOWN:
        ++*top;
        break;
    case KEY_PAGE_UP:
        *top -= terminal_height() / 2;
        break;
    case KEY_PAGE_DOWN:
        *top += terminal_height() / 2;
        break;
    case KEY_NONE:
        break;
    }
    return true;
}

int stat_view(const char *directory, double interval)
{
    struct stat_watch watch = {.directory = directory};
    double look_at = 0;
    int top = 0, error = 0;

    if (terminal_open() != 0)
        return 1;
    do {
        if (seconds_now() >= look_at) {
            look_at = seconds_now() + interval;
            if (stat_watch_look(&watch) != 0) {
                error = errno;
                break;
            }
        }
        view_draw(&watch, interval, &top);
    } while (view_key(terminal_wait(look_at - seconds_now()), &top));
    terminal_close();
    stat_watch_fini(&watch);
    if (error != 0)
        fprintf(stderr, "llm-stat: %s: %s\n", directory, strerror(error));
    return error != 0;
}
