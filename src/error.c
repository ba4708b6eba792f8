/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to words: errors, events, reasons, the version. */
#include <llm/llm.h>

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
    }
    return "unknown reason";
}
