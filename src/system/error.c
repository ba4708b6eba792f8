/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of errors, events and reasons, and the version. */
#include <llm/llm.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x

const char *llm_version(void)
{
    return TEXT(LLM_VERSION_MAJOR) "." TEXT(LLM_VERSION_MINOR) "." TEXT(LLM_VERSION_PATCH);
}

const char *llm_error_text(int error)
{
    switch (error) {
#define ERROR_TEXT(name, number, text) \
    case number:                       \
        return text;
        LLM_ERRORS(ERROR_TEXT)
    default:
        return error >= 0 ? "success" : "unknown error";
    }
}

const char *llm_error_name(int error)
{
    switch (error) {
#define ERROR_NAME(name, number, text) \
    case number:                       \
        return "LLM_" #name;
        LLM_ERRORS(ERROR_NAME)
    default:
        return error >= 0 ? "LLM_OK" : "LLM_UNKNOWN";
    }
}

const char *llm_event_name(enum llm_event_kind kind)
{
    switch (kind) {
    case LLM_EVENT_SESSION_NEW:
        return "session new";
    case LLM_EVENT_SESSION_END:
        return "session end";
    case LLM_EVENT_GAP:
        return "gap";
    case LLM_EVENT_HEARTBEAT_LOST:
        return "heartbeat lost";
    case LLM_EVENT_RESUMED:
        return "resumed";
    case LLM_EVENT_TOPIC_NEW:
        return "topic new";
    case LLM_EVENT_JOIN_REFUSED:
        return "join refused";
    case LLM_EVENT_LIVE:
        return "live";
    case LLM_EVENT_CACHE_LOST:
        return "cached messages lost";
    case LLM_EVENT_WARNED:
        return "warned";
    case LLM_EVENT_UNICAST_ONLY:
        return "repaired by unicast only";
    case LLM_EVENT_SUSPENDED:
        return "suspended";
    case LLM_EVENT_EXPELLED:
        return "expelled";
    case LLM_EVENT_READMITTED:
        return "readmitted";
    case LLM_EVENT_CONNECTED:
        return "connected";
    case LLM_EVENT_DISCONNECTED:
        return "disconnected";
    case LLM_EVENT_UNREACHABLE:
        return "unreachable";
    case LLM_EVENT_ACKNOWLEDGED:
        return "acknowledged";
    case LLM_EVENT_UNACKNOWLEDGED:
        return "not acknowledged";
    case LLM_EVENT_STREAM_GAP:
        return "messages of the stream missing";
    case LLM_EVENT_STREAM_AGAIN:
        return "messages of the stream again";
    case LLM_EVENT_STREAM_REFUSED:
        return "session of the stream refused";
    case LLM_EVENT_LINE_DOWN:
        return "line down";
    case LLM_EVENT_LINE_UP:
        return "line up";
    case LLM_EVENT_LIMITED:
        return "limited";
    case LLM_EVENT_RECEIVER_LIMITED:
        return "receiver limited";
    case LLM_EVENT_STORE_STOPPED:
        return "store stopped";
    case LLM_EVENT_KEYS:
        return "keys differ";
    case LLM_EVENT_DIVERGED:
        return "messages differ";
    case LLM_EVENT_FORGED:
        return "packets forged";
    }
    return "unknown event";
}

const char *llm_reason_name(enum llm_reason reason)
{
    switch (reason) {
    case LLM_REASON_NONE:
        return "none";
    case LLM_REASON_CLOSED:
        return "closed";
    case LLM_REASON_TIMEOUT:
        return "timeout";
    case LLM_REASON_GONE:
        return "gone from the history";
    case LLM_REASON_OVERRUN:
        return "overrun";
    case LLM_REASON_TOO_LONG:
        return "message too long";
    case LLM_REASON_REPLACED:
        return "replaced by a newer session";
    case LLM_REASON_HISTORY:
        return "beyond the history";
    case LLM_REASON_UNANSWERED:
        return "not answered";
    case LLM_REASON_NOT_SENT:
        return "not sent yet";
    case LLM_REASON_SUSPENDED:
        return "suspended";
    case LLM_REASON_EXPELLED:
        return "expelled";
    case LLM_REASON_REFUSED:
        return "refused";
    case LLM_REASON_FULL:
        return "no more connections";
    case LLM_REASON_ABANDONED:
        return "abandoned";
    case LLM_REASON_BROKEN:
        return "a message was lost";
    case LLM_REASON_NO_CACHE:
        return "no topic has a cache";
    case LLM_REASON_RECEIVERS_FEW:
        return "too few receivers";
    case LLM_REASON_RECEIVER_ABSENT:
        return "a receiver is absent";
    case LLM_REASON_GIVEN_UP:
        return "given up by receivers";
    case LLM_REASON_PENDING:
        return "no answer yet";
    case LLM_REASON_UNRELIABLE:
        return "unreliable, not repaired";
    case LLM_REASON_MALFORMED:
        return "packets contradict each other";
    case LLM_REASON_RESTARTED:
        return "the transmitter restarted";
    case LLM_REASON_SUPERSEDED:
        return "another session continues the stream";
    case LLM_REASON_TERM_TAKEN:
        return "another session has this term";
    case LLM_REASON_SKIPPED:
        return "no transmitter has the messages";
    case LLM_REASON_IN_CLEAR:
        return "packets in clear";
    case LLM_REASON_KEYS:
        return "packets protected by other keys";
    case LLM_REASON_SEAL:
        return "packets differ from what the transmitter signed";
    case LLM_REASON_UNSEALED:
        return "packets are not signed";
    case LLM_REASON_NO_ROUTE:
        return "no route";
    case LLM_REASON_ADDRESS:
        return "address not reachable from this host";
    case LLM_REASON_FORBIDDEN:
        return "forbidden on this host";
    case LLM_REASON_DISK:
        return "the disk failed";
    case LLM_REASON_DISK_FULL:
        return "the disk is full";
    case LLM_REASON_DAMAGED:
        return "damaged in the store";
    }
    return "unknown reason";
}

const char *llm_threshold_name(enum llm_threshold threshold)
{
    switch (threshold) {
    case LLM_THRESHOLD_NONE:
        return "none";
    case LLM_THRESHOLD_NAKS:
        return "NAKs a second";
    case LLM_THRESHOLD_NAK_SHARE:
        return "ppm of the packets requested again";
    case LLM_THRESHOLD_LAG_PACKETS:
        return "packets of lag";
    case LLM_THRESHOLD_LAG_TIME:
        return "ns of lag";
    case LLM_THRESHOLD_SILENCE:
        return "ns of silence";
    case LLM_THRESHOLD_GROUP:
        return "slow receivers";
    case LLM_THRESHOLD_OPERATOR:
        return "the operator's order";
    case LLM_THRESHOLD_LAG_BYTES:
        return "bytes of lag";
    case LLM_THRESHOLD_ACK_TIME:
        return "ns without an acknowledgement";
    }
    return "unknown threshold";
}

const char *llm_limit_name(enum llm_limit limit)
{
    switch (limit) {
#define LIMIT_NAME(name, number, text) \
    case LLM_LIMIT_##name:             \
        return text;
        LLM_LIMITS(LIMIT_NAME)
#undef LIMIT_NAME
    }
    return "an unknown limit";
}

/* ------------------------------------------------------------------------------------------------- events */

static int event_gap_text(const struct llm_event *event, char *text, size_t size)
{
    const char *why = llm_reason_name(event->reason);

    if (event->last + 1 == event->first)
        return snprintf(text, size,
                        "session %016" PRIx64 ": no message before %" PRIu64 " is lost, but %" PRIu64
                        " packets are: %s",
                        event->session, event->first, event->packets, why);
    return snprintf(text, size,
                    "session %016" PRIx64 ": %" PRIu64 " messages are lost, %" PRIu64 " to %" PRIu64
                    ", with %" PRIu64 " packets: %s",
                    event->session, event->last - event->first + 1, event->first, event->last, event->packets,
                    why);
}

/*
 * Describes a refused join. The position requested is not always known, and the possible one only from an
 * answer.
 */
static int event_refused_text(const struct llm_event *event, char *text, size_t size)
{
    const char *why = llm_reason_name(event->reason);
    char with[48] = "at the requested position", there[64] = "";

    if (event->first != 0)
        (void)snprintf(with, sizeof with, "with message %" PRIu64, event->first);
    if (event->reason == LLM_REASON_HISTORY || event->reason == LLM_REASON_NOT_SENT)
        (void)snprintf(there, sizeof there, "; the first retained message is %" PRIu64, event->last);
    return snprintf(text, size, "session %016" PRIx64 " cannot begin %s: %s%s", event->session, with, why,
                    there);
}

/* Describes a verdict on a receiver, or on the receivers if most of them suffer. */
static int event_verdict_text(const struct llm_event *event, char *text, size_t size)
{
    const struct llm_verdict *v = event->verdict;
    const char *what = llm_event_name(event->kind);
    const char *dry = v->dry_run ? " (report only)" : "";

    if (v->threshold == LLM_THRESHOLD_GROUP)
        return snprintf(text, size,
                        "session %016" PRIx64 ": receivers are %s%s: %" PRIu32 " of %" PRIu32 " suffer",
                        event->session, what, dry, v->suffering, v->receivers);
    if (v->threshold == LLM_THRESHOLD_OPERATOR)
        return snprintf(text, size, "session %016" PRIx64 ": receiver %016" PRIx64 " is %s by %s",
                        event->session, v->receiver, what, llm_threshold_name(v->threshold));
    if (v->threshold == LLM_THRESHOLD_NONE)
        return snprintf(text, size, "session %016" PRIx64 ": receiver %016" PRIx64 " is %s%s", event->session,
                        v->receiver, what, dry);
    return snprintf(
        text, size, "session %016" PRIx64 ": receiver %016" PRIx64 " is %s%s: %" PRIu64 " %s, limit %" PRIu64,
        event->session, v->receiver, what, dry, v->value, llm_threshold_name(v->threshold), v->limit);
}

static int event_assured_text(const struct llm_event *event, char *text, size_t size)
{
    const bool waits = event->kind == LLM_EVENT_UNACKNOWLEDGED;
    char few[48] = "";

    if (event->receivers_wanted > 0)
        (void)snprintf(few, sizeof few, ": %u of %u", event->receivers, event->receivers_wanted);
    return snprintf(
        text, size,
        "session %016" PRIx64 ": messages %" PRIu64 " to %" PRIu64 " of topic \"%s\" are %s%s%s%s%s%s",
        event->session, event->first, event->last, event->topic == NULL ? "" : event->topic,
        llm_event_name(event->kind), waits ? ": " : "", waits ? llm_reason_name(event->reason) : "",
        event->receiver == NULL ? "" : ": ", event->receiver == NULL ? "" : event->receiver, few);
}

/* Describes the end of a connection; one that was never established has no session. */
static int event_disconnected_text(const struct llm_event *event, char *text, size_t size)
{
    const char *why = llm_reason_name(event->reason);

    if (event->reason == LLM_REASON_REFUSED)
        return snprintf(text, size, "not connected: %s, code %" PRIu64, why, event->first);
    if (event->session == 0)
        return snprintf(text, size, "not connected: %s", why);
    return snprintf(text, size, "session %016" PRIx64 " is disconnected: %s", event->session, why);
}

/*
 * Describes a bottleneck of a transmitter, by its session, or of a receiver, which has many sessions and
 * names none.
 */
static int event_limited_text(const struct llm_event *event, char *text, size_t size)
{
    const struct llm_bottleneck *b = event->bottleneck;

    if (event->kind == LLM_EVENT_RECEIVER_LIMITED)
        return snprintf(text, size,
                        "session %016" PRIx64 ": receiver %016" PRIx64 " is limited by %s: away for %" PRIu64
                        " of %" PRIu64 " ms, %" PRIu64 " packets missed, %" PRIu64 " dropped by its host",
                        event->session, b->receiver, llm_limit_name(b->limit), b->away_ns / 1000000,
                        b->time_ns / 1000000, b->packets_missed, b->packets_dropped);
    if (event->session != 0)
        return snprintf(text, size, "session %016" PRIx64 ": the transmitter is limited by %s",
                        event->session, llm_limit_name(b->limit));
    return snprintf(text, size,
                    "the receiver is limited by %s: away for %" PRIu64 " of %" PRIu64 " ms, %" PRIu64
                    " packets missed, %" PRIu64 " dropped by this host",
                    llm_limit_name(b->limit), b->away_ns / 1000000, b->time_ns / 1000000, b->packets_missed,
                    b->packets_dropped);
}

static int event_session_text(const struct llm_event *event, char *text, size_t size)
{
    char stream[96] = "";

    if (event->stream != 0)
        (void)snprintf(stream, sizeof stream,
                       ", number %" PRIu64 " of stream %016" PRIx64 " in term %" PRIu32,
                       event->stream_base + event->first, event->stream, event->stream_term);
    return snprintf(text, size, "session %016" PRIx64 " is followed from message %" PRIu64 "%s",
                    event->session, event->first, stream);
}

static int event_stream_text(const struct llm_event *event, char *text, size_t size)
{
    if (event->kind == LLM_EVENT_STREAM_REFUSED)
        return snprintf(text, size,
                        "session %016" PRIx64 " of stream %016" PRIx64 " is not followed in term %" PRIu32
                        ": %s",
                        event->session, event->stream, event->stream_term, llm_reason_name(event->reason));
    return snprintf(text, size,
                    "session %016" PRIx64 ": messages %" PRIu64 " to %" PRIu64 " of stream %016" PRIx64
                    " %s: %s",
                    event->session, event->first, event->last, event->stream,
                    event->kind == LLM_EVENT_STREAM_GAP ? "are missing" : "are sent again",
                    llm_reason_name(event->reason));
}

/* Describes an event of an unknown kind, or one that lacks a field of its kind. */
static int event_unknown_text(const struct llm_event *event, char *text, size_t size)
{
    return snprintf(text, size, "session %016" PRIx64 ": %s %d, reason %d (%s)", event->session,
                    llm_event_name(event->kind), (int)event->kind, (int)event->reason,
                    llm_reason_name(event->reason));
}

static int event_store_text(const struct llm_event *event, char *text, size_t size)
{
    return snprintf(text, size,
                    "session %016" PRIx64 " is no longer recorded, from message %" PRIu64 " on: %s: %s: %s",
                    event->session, event->first, llm_reason_name(event->reason),
                    event->file == NULL ? "" : event->file, strerror(event->error));
}

size_t llm_event_text(const struct llm_event *event, char *text, size_t size)
{
    int length = 0;

    if (text == NULL)
        size = 0;
    if (event == NULL) {
        if (size > 0)
            text[0] = '\0';
        return 0;
    }
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        length = event_session_text(event, text, size);
        break;
    case LLM_EVENT_STREAM_GAP:
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
        length = event_stream_text(event, text, size);
        break;
    case LLM_EVENT_SESSION_END:
        length = snprintf(text, size, "session %016" PRIx64 " has ended before message %" PRIu64 ": %s",
                          event->session, event->first, llm_reason_name(event->reason));
        break;
    case LLM_EVENT_GAP:
        length = event_gap_text(event, text, size);
        break;
    case LLM_EVENT_HEARTBEAT_LOST:
        length = snprintf(text, size, "session %016" PRIx64 " is no longer heard", event->session);
        break;
    case LLM_EVENT_RESUMED:
        length = snprintf(text, size, "session %016" PRIx64 " is heard again", event->session);
        break;
    case LLM_EVENT_LINE_DOWN:
    case LLM_EVENT_LINE_UP:
        length =
            snprintf(text, size, "session %016" PRIx64 " is %s on line %" PRIu64, event->session,
                     event->kind == LLM_EVENT_LINE_DOWN ? "no longer heard" : "heard again", event->first);
        break;
    case LLM_EVENT_TOPIC_NEW:
        length = snprintf(text, size, "session %016" PRIx64 ": topic %" PRIu32 " is \"%s\"", event->session,
                          event->topic_id, event->topic == NULL ? "" : event->topic);
        break;
    case LLM_EVENT_JOIN_REFUSED:
        length = event_refused_text(event, text, size);
        break;
    case LLM_EVENT_LIVE:
        length = snprintf(
            text, size, "session %016" PRIx64 " is live: all requested messages came before message %" PRIu64,
            event->session, event->first);
        break;
    case LLM_EVENT_CACHE_LOST:
        length = snprintf(text, size,
                          "session %016" PRIx64 ": cached messages of topic %" PRIu32
                          " \"%s\" and of topics after it are lost: "
                          "%s; delivery continues with message %" PRIu64,
                          event->session, event->topic_id, event->topic == NULL ? "" : event->topic,
                          llm_reason_name(event->reason), event->first);
        break;
    case LLM_EVENT_CONNECTED:
        length = snprintf(text, size, "session %016" PRIx64 " is connected", event->session);
        break;
    case LLM_EVENT_DISCONNECTED:
        length = event_disconnected_text(event, text, size);
        break;
    case LLM_EVENT_UNREACHABLE:
        length =
            snprintf(text, size, "session %016" PRIx64 ": packets to %s cannot be sent: %s", event->session,
                     event->address == NULL ? "" : event->address, llm_reason_name(event->reason));
        break;
    case LLM_EVENT_KEYS:
        length = snprintf(text, size, "packets of others were dropped: %s", llm_reason_name(event->reason));
        break;
    case LLM_EVENT_DIVERGED:
        length = snprintf(text, size,
                          "session %016" PRIx64 ": message %" PRIu64 " of the stream has the hash %016" PRIx64
                          ", and another session delivered %016" PRIx64,
                          event->session, event->first, event->hash_copy, event->hash);
        break;
    case LLM_EVENT_FORGED:
        length =
            snprintf(text, size, "session %016" PRIx64 ": %" PRIu64 " packets are not its transmitter's: %s",
                     event->session, event->packets, llm_reason_name(event->reason));
        break;
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
        length = event_assured_text(event, text, size);
        break;
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_RECEIVER_LIMITED:
        length = event->bottleneck == NULL ? event_unknown_text(event, text, size)
                                           : event_limited_text(event, text, size);
        break;
    case LLM_EVENT_STORE_STOPPED:
        length = event_store_text(event, text, size);
        break;
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_SUSPENDED:
    case LLM_EVENT_EXPELLED:
    case LLM_EVENT_READMITTED:
        length = event->verdict == NULL ? event_unknown_text(event, text, size)
                                        : event_verdict_text(event, text, size);
        break;
    default:
        length = event_unknown_text(event, text, size);
        break;
    }
    return length < 0 ? 0 : (size_t)length;
}
