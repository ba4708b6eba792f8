/* SPDX-License-Identifier: Apache-2.0 */
#include "config/options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/registry.h"
#include "core/base/types.h"

static const struct lli_option option_rows[] = {
#define OPTION_ROW(...) LLI_OPTION_ROW(struct llm_options, __VA_ARGS__)
    LLM_OPTIONS(OPTION_ROW)};

static const struct lli_option_table option_table = {option_rows, sizeof option_rows / sizeof option_rows[0],
                                                     sizeof(struct llm_options)};

static uint64_t option_get(const void *values, const struct lli_option *option)
{
    const uint8_t *at = (const uint8_t *)values + option->offset;
    uint32_t narrow;
    uint64_t wide;

    if (option->type == LLI_OPTION_u32 || option->type == LLI_OPTION_word) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void option_put(void *values, const struct lli_option *option, uint64_t value)
{
    uint8_t *at = (uint8_t *)values + option->offset;
    uint32_t narrow = (uint32_t)value;

    if (option->type == LLI_OPTION_u32 || option->type == LLI_OPTION_word)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
}

/* Sets every option of a table to its default. */
static void option_defaults(void *values, const struct lli_option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct lli_option *option = &table->options[i];

        if (option->type == LLI_OPTION_str)
            memcpy((char *)values + option->offset, option->text, strlen(option->text) + 1);
        else
            option_put(values, option, option->value);
    }
}

/* Returns true if two structures of values agree in all options of scope INSTANCE. */
static bool option_instances_agree(const void *a, const void *b, const struct lli_option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct lli_option *option = &table->options[i];
        const char *text_a = (const char *)a + option->offset, *text_b = (const char *)b + option->offset;

        if (option->scope != LLI_OPTION_INSTANCE)
            continue;
        if (option->type == LLI_OPTION_str ? strcmp(text_a, text_b) != 0
                                           : option_get(a, option) != option_get(b, option))
            return false;
    }
    return true;
}

void llm_options_init(struct llm_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    option_defaults(options, &option_table);
}

void lli_option_values_init(struct lli_option_values *values, const char *scheme)
{
    const struct lli_option_table *tables[LLI_OPTION_TABLES_MAX];
    const int count = lli_transport_option_tables(scheme, tables, LLI_OPTION_TABLES_MAX);

    memset(values, 0, sizeof *values);
    for (int i = 0; i < count; i++) {
        assert(tables[i]->size <= LLI_OPTION_VALUES_BYTES);
        values->of[i].table = tables[i];
        option_defaults(values->of[i].bytes, tables[i]);
    }
}

bool lli_options_share_instance(const struct llm_options *a, const struct llm_options *b)
{
    return option_instances_agree(a, b, &option_table);
}

bool lli_option_values_share_instance(const struct lli_option_values *a, const struct lli_option_values *b)
{
    for (int i = 0; i < LLI_OPTION_TABLES_MAX && a->of[i].table != NULL; i++)
        if (a->of[i].table != b->of[i].table ||
            !option_instances_agree(a->of[i].bytes, b->of[i].bytes, a->of[i].table))
            return false;
    return true;
}

int lli_options_import(void *to, size_t known, const void *from, const char *what, const struct lli_log *log)
{
    size_t size;

    memcpy(&size, from, sizeof size);
    /* The size is a multiple of a word in every version, so that no pointer is cut in two. */
    if (size < sizeof size || size % sizeof size != 0)
        return lli_fail(log, LLM_EINVAL, "%s: size is %zu: initialise the structure with its _init function",
                        what, size);
    /* Bytes beyond the known size are not read: they may not exist. */
    if (size > known)
        return lli_fail(
            log, LLM_EVERSION,
            "%s: size is %zu, and at most %zu in libllm %s: initialise the structure with its _init "
            "function, or update the library",
            what, size, known, llm_version());
    memcpy(to, from, size);
    memcpy(to, &known, sizeof known);
    return LLM_OK;
}

int lli_options_copy(struct llm_options *options, const struct llm_options *user, const struct lli_log *log)
{
    llm_options_init(options);
    if (user == NULL)
        return LLM_OK;
    return lli_options_import(options, sizeof *options, user, "struct llm_options", log);
}

/* Parses a decimal number with an optional K, M or G. False: it is anything else. */
static bool option_parse(const char *text, uint64_t *value)
{
    uint64_t factor = 1;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (*end == 'K' || *end == 'M' || *end == 'G') {
        factor = *end == 'K' ? 1u << 10 : *end == 'M' ? 1u << 20 : 1u << 30;
        end++;
    }
    if (*end != '\0' || *value > UINT64_MAX / factor)
        return false;
    *value *= factor;
    return true;
}

/*
 * Words of an option, indexed by its enumerators; NULL: an enumerator that is not a choice here, and the end
 * of the list.
 */
static const struct {
    const char *option;
    const char *words[7];
} option_words[] = {
    {"flow", {"open", "paced", "window"}},
    /* LLM_JOIN_NUMBER is missing: numbers belong to one session, so only a handler can give one. */
    {"join", {"live", "oldest", "messages", "time", NULL, "latest"}},
    {"join_else", {"oldest", "live", "refuse"}},
    {"order", {"sequence", "arrival"}},
    {"slow", {"off", "report", "warn", "unicast", "suspend", "expel"}},
    {"acknowledge", {"library", "application"}},
    {"keys_mode", {"encrypt", "authenticate"}},
};

static const char *const *option_words_of(const struct lli_option *option)
{
    size_t i = 0;

    while (strcmp(option_words[i].option, option->name) != 0)
        i++;
    return option_words[i].words;
}

/* Writes the words of an option: "open, paced or window". */
static const char *option_choice(const struct lli_option *option, char *text, size_t size)
{
    const char *const *words = option_words_of(option);
    size_t used = 0;

    for (uint64_t i = 0; i <= option->max; i++)
        if (words[i] != NULL)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     i == 0             ? ""
                                     : i == option->max ? " or "
                                                        : ", ",
                                     words[i]);
    return text;
}

static int option_set_word(void *values, const struct lli_option *option, const char *value,
                           const struct lli_log *log)
{
    const char *const *words = option_words_of(option);
    char choice[80];

    for (uint64_t i = 0; i <= option->max; i++) {
        if (words[i] == NULL || strcmp(words[i], value) != 0)
            continue;
        option_put(values, option, i);
        return LLM_OK;
    }
    return lli_fail(log, LLM_EOPTION, "option %s: \"%s\" must be %s", option->name, value,
                    option_choice(option, choice, sizeof choice));
}

static int option_check_word(const struct llm_options *options, const struct lli_option *option,
                             const struct lli_log *log)
{
    const uint64_t value = option_get(options, option);
    char choice[80];

    if (value <= option->max && option_words_of(option)[value] != NULL)
        return LLM_OK;
    return lli_fail(log, LLM_EOPTION, "option %s: %llu must be the enumerator of %s", option->name,
                    (unsigned long long)value, option_choice(option, choice, sizeof choice));
}

static int option_check(const struct llm_options *options, const struct lli_option *option,
                        const struct lli_log *log)
{
    const char *text = (const char *)options + option->offset;

    if (option->type == LLI_OPTION_str) {
        if (memchr(text, '\0', option->max) == NULL)
            return lli_fail(log, LLM_EOPTION, "option %s: longer than %d characters", option->name,
                            (int)option->max - 1);
        return LLM_OK;
    }
    if (option->type == LLI_OPTION_word)
        return option_check_word(options, option, log);
    if (option_get(options, option) < option->min || option_get(options, option) > option->max)
        return lli_fail(log, LLM_EOPTION, "option %s: %llu is not between %llu and %llu", option->name,
                        (unsigned long long)option_get(options, option), (unsigned long long)option->min,
                        (unsigned long long)option->max);
    return LLM_OK;
}

static int option_set(void *values, const struct lli_option *option, const char *value,
                      const struct lli_log *log)
{
    uint64_t number;

    if (option->type == LLI_OPTION_str) {
        if (strlen(value) >= option->max)
            return lli_fail(log, LLM_EOPTION, "option %s: \"%s\" is longer than %d characters", option->name,
                            value, (int)option->max - 1);
        memcpy((char *)values + option->offset, value, strlen(value) + 1);
        return LLM_OK;
    }
    if (option->type == LLI_OPTION_word)
        return option_set_word(values, option, value, log);
    if (!option_parse(value, &number) || number < option->min || number > option->max)
        return lli_fail(log, LLM_EOPTION, "option %s: \"%s\" is not a number between %llu and %llu",
                        option->name, value, (unsigned long long)option->min,
                        (unsigned long long)option->max);
    option_put(values, option, number);
    return LLM_OK;
}

static const struct lli_option *option_find(const struct lli_option_table *table, const char *key)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(key, table->options[i].name) == 0)
            return &table->options[i];
    return NULL;
}

/* Finds an option of the transports and sets *place to the index of its table; NULL: none of them has it. */
static const struct lli_option *option_find_value(const struct lli_option_values *values, const char *key,
                                                  int *place)
{
    const struct lli_option *option = NULL;

    for (*place = 0; *place < LLI_OPTION_TABLES_MAX && values->of[*place].table != NULL; ++*place)
        if ((option = option_find(values->of[*place].table, key)) != NULL)
            break;
    return option;
}

bool lli_options_have(const struct lli_option_values *values, const char *key)
{
    int place;

    return option_find(&option_table, key) != NULL || option_find_value(values, key, &place) != NULL;
}

/* True if an option of the library may differ between lines: those of groups, and of instances but for some. */
static bool option_is_of_line(const struct lli_option *option)
{
    static const char *const of_groups[] = {"source", "ttl", "loop"};
    static const char *const of_both[] = {"check_source", "keys", "keys_mode", "seal_keys", "seal_hold"};

    for (size_t i = 0; i < sizeof of_groups / sizeof of_groups[0]; i++)
        if (strcmp(option->name, of_groups[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof of_both / sizeof of_both[0]; i++)
        if (strcmp(option->name, of_both[i]) == 0)
            return false;
    return option->scope == LLI_OPTION_INSTANCE;
}

bool lli_options_of_line(const struct lli_option_values *values, const char *key)
{
    const struct lli_option *option = option_find(&option_table, key);
    int place;

    return option != NULL ? option_is_of_line(option) : option_find_value(values, key, &place) != NULL;
}

void lli_options_of_both(struct llm_options *second, const struct llm_options *first)
{
    for (size_t i = 0; i < option_table.count; i++) {
        const struct lli_option *option = &option_table.options[i];

        if (option_is_of_line(option))
            continue;
        if (option->type == LLI_OPTION_str)
            memcpy((char *)second + option->offset, (const char *)first + option->offset,
                   strlen((const char *)first + option->offset) + 1);
        else
            option_put(second, option, option_get(first, option));
    }
}

/* Returns the scheme of the transport that has an option, NULL if none of this build does. */
static const char *option_owner(const char *key)
{
    const struct lli_option_table *table;
    const char *scheme;

    for (int i = 0; (scheme = lli_transport_option_table(i, &table)) != NULL; i++)
        if (table != NULL && option_find(table, key) != NULL)
            return scheme;
    return NULL;
}

int lli_options_set(struct llm_options *options, struct lli_option_values *values, const char *key,
                    const char *value, const struct lli_log *log)
{
    const struct lli_option *option = option_find(&option_table, key);
    const char *owner;
    int place;

    if (option != NULL)
        return option_set(options, option, value, log);
    option = option_find_value(values, key, &place);
    if (option != NULL)
        return option_set(values->of[place].bytes, option, value, log);
    owner = option_owner(key);
    if (owner != NULL)
        return lli_fail(log, LLM_EOPTION, "option %s: it needs a channel of the scheme %s", key, owner);
    return lli_fail(log, LLM_EOPTION, "option \"%s\" does not exist: llm_options(7) lists those that do",
                    key);
}

static int option_order(const char *low, uint64_t low_value, const char *high, uint64_t high_value,
                        const struct lli_log *log)
{
    if (low_value <= high_value)
        return LLM_OK;
    return lli_fail(log, LLM_EOPTION, "option %s: %llu is more than %s, %llu", low,
                    (unsigned long long)low_value, high, (unsigned long long)high_value);
}

static int option_power(const char *name, uint64_t value, const struct lli_log *log)
{
    if (lli_is_power_of_two(value))
        return LLM_OK;
    return lli_fail(log, LLM_EOPTION, "option %s: %llu is not a power of two", name,
                    (unsigned long long)value);
}

enum {
    OPTION_RATE_MIN = 65536,
    OPTION_WINDOW_PACKETS_LEAST = 8, /* of flow_window_bytes: receivers report eight times in a window */
};

enum lli_flow_mode lli_options_flow(const struct llm_options *options)
{
    static const enum lli_flow_mode modes[] = {LLI_FLOW_OPEN, LLI_FLOW_PACED, LLI_FLOW_WINDOW};

    return modes[options->flow];
}

struct llm_join lli_options_join(const struct llm_options *options)
{
    struct llm_join join = {.mode = options->join};

    if (join.mode == LLM_JOIN_MESSAGES || join.mode == LLM_JOIN_LATEST)
        join.value = options->join_messages;
    if (join.mode == LLM_JOIN_TIME)
        join.value = options->join_ns;
    return join;
}

enum lli_rx_otherwise lli_options_join_else(const struct llm_options *options)
{
    static const enum lli_rx_otherwise elses[] = {LLI_RX_ELSE_OLDEST, LLI_RX_ELSE_LIVE, LLI_RX_ELSE_REFUSE};

    return elses[options->join_else];
}

bool lli_options_as_it_arrives(const struct llm_options *options)
{
    return options->order == LLM_ORDER_ARRIVAL;
}

static int option_check_order(const struct llm_options *o, const struct lli_log *log)
{
    /*
     * An acknowledgement covers all messages up to a number; only with delivery in order does the application
     * know which.
     */
    if (lli_options_as_it_arrives(o) && o->acknowledge == LLM_ACKNOWLEDGE_APPLICATION)
        return lli_fail(log, LLM_EOPTION,
                        "option order: arrival does not go with acknowledge=application, by which "
                        "messages are acknowledged in sequence: leave one out");
    return LLM_OK;
}

/*
 * Returns true if all receivers have to keep up: then flow control waits for the slowest, however long it
 * takes.
 */
static bool option_slow_waits(const struct llm_options *o)
{
    return lli_options_flow(o) != LLI_FLOW_OPEN && o->flow_quorum_percent == 100;
}

struct lli_slow_policy lli_options_slow(const struct llm_options *o, uint64_t history_packets)
{
    static const enum lli_standing most[] = {LLI_STANDING_FINE,      LLI_STANDING_EXPELLED,
                                             LLI_STANDING_WARNED,    LLI_STANDING_UNICAST,
                                             LLI_STANDING_SUSPENDED, LLI_STANDING_EXPELLED};
    const bool limited = lli_options_flow(o) != LLI_FLOW_OPEN;
    /* Flow control lets receivers lag by up to two windows. */
    const uint64_t lag_packets =
        lli_max(history_packets * 3 / 4, limited ? 2 * (uint64_t)o->flow_window_packets + 1 : 1);

    return (struct lli_slow_policy){
        .most = most[o->slow],
        .dry = o->slow == LLM_SLOW_REPORT,
        .limits =
            {
                [LLM_THRESHOLD_NAKS] = o->slow_naks_per_s,
                [LLM_THRESHOLD_NAK_SHARE] = o->slow_nak_ppm,
                [LLM_THRESHOLD_LAG_PACKETS] = o->slow_lag_packets != 0 ? o->slow_lag_packets : lag_packets,
                [LLM_THRESHOLD_LAG_BYTES] = o->slow_lag_bytes,
                [LLM_THRESHOLD_ACK_TIME] = o->slow_ack_ns,
                [LLM_THRESHOLD_LAG_TIME] = option_slow_waits(o) ? 0 : o->slow_lag_ns,
                [LLM_THRESHOLD_SILENCE] = o->slow_silence_ns != 0 ? o->slow_silence_ns : o->status_ns * 9 / 5,
            },
        .warn_percent = o->slow_warn_percent,
        .unicast_percent = o->slow_unicast_percent,
        .patience = o->slow_patience_ns,
        .recover = o->slow_recover_ns,
        .expel = o->slow_expel_ns,
        .rejoin = o->slow_rejoin_ns,
        .status = o->status_ns,
    };
}

/*
 * Checks the order of thresholds, and refuses those that others make ineffective; 0 is a default that fits
 * the others.
 */
static int option_check_slow(const struct llm_options *o, const struct lli_log *log)
{
    int error = option_order("slow_warn_percent", o->slow_warn_percent, "slow_unicast_percent",
                             o->slow_unicast_percent, log);
    if (error == LLM_OK)
        error = option_order("slow_recover_ns", o->slow_recover_ns, "slow_expel_ns", o->slow_expel_ns, log);
    if (error == LLM_OK)
        error = option_order("slow_patience_ns", o->slow_patience_ns, "slow_expel_ns", o->slow_expel_ns, log);
    if (error == LLM_OK && o->slow_silence_ns != 0)
        error = option_order("status_ns", o->status_ns, "slow_silence_ns", o->slow_silence_ns, log);
    /* A receiver's lag and acknowledgements are known from its reports only. */
    if (error == LLM_OK && o->slow_lag_ns != 0)
        error = option_order("status_ns", o->status_ns, "slow_lag_ns", o->slow_lag_ns, log);
    if (error == LLM_OK && o->slow_ack_ns != 0)
        error = option_order("status_ns", o->status_ns, "slow_ack_ns", o->slow_ack_ns, log);
    /* A receiver that is silent for longer is removed. */
    if (error == LLM_OK && o->slow_silence_ns != 0)
        error = option_order("slow_silence_ns", o->slow_silence_ns, "ten times status_ns", 10 * o->status_ns,
                             log);
    if (error == LLM_OK && o->slow_lag_packets != 0 && lli_options_flow(o) != LLI_FLOW_OPEN)
        error = option_order("flow_window_packets", o->flow_window_packets, "slow_lag_packets",
                             o->slow_lag_packets, log);
    if (error == LLM_OK && o->slow_lag_packets != 0)
        error =
            option_order("slow_lag_packets", o->slow_lag_packets, "history_packets", o->history_packets, log);
    if (error == LLM_OK && o->slow_lag_bytes != 0)
        error = option_order("slow_lag_bytes", o->slow_lag_bytes, "history_bytes", o->history_bytes, log);
    return error;
}

int lli_options_check_window(const struct llm_options *o, const struct lli_flow_config *flow,
                             uint32_t packet_max, const struct lli_log *log)
{
    const uint64_t lag = lli_min((uint64_t)flow->window_packets * packet_max, flow->window_bytes);
    const uint64_t window_least = (uint64_t)OPTION_WINDOW_PACKETS_LEAST * packet_max;

    if (o->flow_window_bytes != 0 && o->flow_window_bytes < window_least)
        return lli_fail(
            log, LLM_EOPTION,
            "option flow_window_bytes: %llu is less than %d packets of %u bytes; raise it, or leave "
            "it out",
            (unsigned long long)o->flow_window_bytes, OPTION_WINDOW_PACKETS_LEAST, packet_max);
    if (o->slow_lag_bytes != 0 && o->slow_lag_bytes < packet_max)
        return lli_fail(log, LLM_EOPTION,
                        "option slow_lag_bytes: %llu is less than one packet, %u bytes, and no lag is "
                        "smaller; raise it, or leave it out",
                        (unsigned long long)o->slow_lag_bytes, packet_max);
    if (o->slow_lag_bytes == 0 || flow->mode == LLI_FLOW_OPEN || lag <= o->slow_lag_bytes)
        return LLM_OK;
    return lli_fail(log, LLM_EOPTION,
                    "option slow_lag_bytes: %llu is less than the lag that flow control allows, %llu bytes "
                    "(%u packets of %u, but at most flow_window_bytes, which is half of history_bytes by "
                    "default); raise it, or lower flow_window_packets or flow_window_bytes",
                    (unsigned long long)o->slow_lag_bytes, (unsigned long long)lag, flow->window_packets,
                    packet_max);
}

/* Returns true for thresholds of the slow-receiver policy, without the options that apply to all of them. */
static bool option_is_threshold(const char *name)
{
    static const char *const names[] = {"slow_naks_per_s", "slow_nak_ppm", "slow_lag_packets",
                                        "slow_lag_bytes",  "slow_lag_ns",  "slow_ack_ns",
                                        "slow_silence_ns"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

void lli_options_log_unused(const struct llm_options *o, const char *object, const struct lli_log *log)
{
    for (size_t i = 0; i < option_table.count && o->slow == LLM_SLOW_OFF; i++)
        if (option_is_threshold(option_rows[i].name) &&
            option_get(o, &option_rows[i]) != option_rows[i].value)
            lli_log(log, LLM_LEVEL_WARNING, "%s: option %s: %llu has no effect with slow=off: leave one out",
                    object, option_rows[i].name, (unsigned long long)option_get(o, &option_rows[i]));
    if (o->slow_lag_ns != 0 && option_slow_waits(o) && o->slow != LLM_SLOW_OFF)
        lli_log(log, LLM_LEVEL_WARNING,
                "%s: option slow_lag_ns: %llu has no effect with flow=%s and flow_quorum_percent=100, with "
                "which the "
                "slowest is waited for, however long it takes: leave it out, or lower flow_quorum_percent",
                object, (unsigned long long)o->slow_lag_ns, o->flow == LLM_FLOW_PACED ? "paced" : "window");
}

/* Checks that a rate limit can be enforced; 0: no limit. */
static int option_rate(const char *name, uint64_t value, const struct lli_log *log)
{
    if (value == 0 || value >= OPTION_RATE_MIN)
        return LLM_OK;
    return lli_fail(log, LLM_EOPTION, "option %s: %llu is neither 0, no limit, nor at least %d", name,
                    (unsigned long long)value, OPTION_RATE_MIN);
}

static int option_check_rates(const struct llm_options *o, const struct lli_log *log)
{
    int error = option_rate("rate_bytes_per_s", o->rate_bytes_per_s, log);

    if (error == LLM_OK)
        error = option_rate("repair_rate_bytes_per_s", o->repair_rate_bytes_per_s, log);
    if (error == LLM_OK && o->rate_bytes_per_s != 0 && o->flow_bytes_per_s_max != 0)
        error = option_order("flow_bytes_per_s_max", o->flow_bytes_per_s_max, "rate_bytes_per_s",
                             o->rate_bytes_per_s, log);
    return error;
}

static int option_check_acknowledge(const struct llm_options *o, const struct lli_log *log)
{
    if (strchr(o->receiver_name, ',') != NULL)
        return lli_fail(log, LLM_EOPTION, "option receiver_name: \"%s\" has a comma, which separates names",
                        o->receiver_name);
    if (strchr(o->receiver_name, '*') != NULL)
        return lli_fail(
            log, LLM_EOPTION,
            "option receiver_name: \"%s\" has a \"*\", which stands for any text in patterns of names",
            o->receiver_name);
    return LLM_OK;
}

static int option_check_seal(const struct llm_options *o, const struct lli_log *log)
{
    if (o->seal_hold == 0)
        return LLM_OK;
    if (o->seal_keys[0] == '\0')
        return lli_fail(log, LLM_EOPTION,
                        "option seal_hold: 1 waits for seals that nothing verifies: set seal_keys, too");
    if (lli_options_as_it_arrives(o))
        return lli_fail(
            log, LLM_EOPTION,
            "option seal_hold: 1 delivers in sequence, and order=arrival does not: leave one out");
    if (o->join == LLM_JOIN_LATEST)
        return lli_fail(
            log, LLM_EOPTION,
            "option seal_hold: 1 delivers sealed messages, and those of join=latest are not: leave one out");
    return LLM_OK;
}

static int option_check_stream(const struct llm_options *o, const struct lli_log *log)
{
    const bool base = o->stream_base != 0;

    if (o->stream[0] == '\0' && o->stream_merge != 0)
        return lli_fail(log, LLM_EOPTION, "option stream_merge: 1 is of no stream: set stream, too");
    if (o->stream[0] == '\0' && (base || o->stream_term != 0))
        return lli_fail(log, LLM_EOPTION, "option %s: %llu is of no stream: set stream, too",
                        base ? "stream_base" : "stream_term",
                        (unsigned long long)(base ? o->stream_base : o->stream_term));
    return LLM_OK;
}

int lli_options_check(const struct llm_options *o, const struct lli_log *log)
{
    int error = LLM_OK;

    for (size_t i = 0; i < option_table.count && error == LLM_OK; i++)
        error = option_check(o, &option_rows[i], log);
    if (error == LLM_OK)
        error = option_power("history_packets", o->history_packets, log);
    if (error == LLM_OK)
        error = option_power("window_packets", o->window_packets, log);
    if (error == LLM_OK)
        error = option_order("heartbeat_ns_min", o->heartbeat_ns_min, "heartbeat_ns_max", o->heartbeat_ns_max,
                             log);
    if (error == LLM_OK)
        error = option_order("nak_retry_ns_min", o->nak_retry_ns_min, "nak_retry_ns_max", o->nak_retry_ns_max,
                             log);
    if (error == LLM_OK)
        error = option_order("silence_ns", o->silence_ns, "session_timeout_ns", o->session_timeout_ns, log);
    if (error == LLM_OK)
        error = option_order("heartbeat_ns_max", o->heartbeat_ns_max, "silence_ns", o->silence_ns, log);
    if (error == LLM_OK)
        error = option_check_slow(o, log);
    if (error == LLM_OK)
        error = option_check_rates(o, log);
    if (error == LLM_OK)
        error = option_check_acknowledge(o, log);
    if (error == LLM_OK)
        error = option_check_order(o, log);
    if (error == LLM_OK)
        error = option_check_stream(o, log);
    if (error == LLM_OK)
        error = option_check_seal(o, log);
    return error;
}
