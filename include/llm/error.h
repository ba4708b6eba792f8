/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_ERROR_H
#define LLM_ERROR_H

#include <llm/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text): the numbers are stable. */
#define LLM_ERRORS(X)                                                            \
    X(EINVAL, -1, "invalid argument")                                            \
    X(ENOMEM, -2, "out of memory")                                               \
    X(ESCHEME, -3, "unknown or unsupported transport scheme")                    \
    X(EOPTION, -4, "unknown option, or a value out of its range")                \
    X(EGROUP, -5, "not a group that can be joined")                              \
    X(EINTERFACE, -6, "network interface is absent, down or without an address") \
    X(EADDRINUSE, -7, "address already in use")                                  \
    X(EACCESS, -8, "permission denied")                                          \
    X(EMSGSIZE, -9, "message too long")                                          \
    X(EAGAIN, -10, "cannot be taken now, try again after llm_poll")              \
    X(ESTATE, -11, "not possible in this state")                                 \
    X(ELIMIT, -12, "a configured limit is reached")                              \
    X(ESYSTEM, -13, "a system call failed")                                      \
    X(EVERSION, -14, "a structure is of a newer version than this library")      \
    X(ENOTFOUND, -15, "no such name")                                            \
    X(EDAMAGED, -16, "stored data is damaged")                                   \
    X(EFENCED, -17, "no longer the primary")

enum llm_error {
    LLM_OK = 0,
#define LLM_ERROR_ENUM(name, number, text) LLM_##name = number,
    LLM_ERRORS(LLM_ERROR_ENUM)
#undef LLM_ERROR_ENUM
};

/* Return the text of an error code, and its name ("LLM_EINVAL"). Static strings; any thread; never NULL. */
LLM_API const char *llm_error_text(int error);
LLM_API const char *llm_error_name(int error);

#ifdef __cplusplus
}
#endif

#endif
