/* SPDX-License-Identifier: Apache-2.0 */
/* The version, and how functions are declared; <llm/llm.h> includes it. */
#ifndef LLM_API_H
#define LLM_API_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LLM_API __attribute__((visibility("default")))
#else
#define LLM_API
#endif

#define LLM_VERSION_MAJOR 0
#define LLM_VERSION_MINOR 1
#define LLM_VERSION_PATCH 0

/* The version of the library that is linked, as "major.minor.patch". The string is static. */
LLM_API const char *llm_version(void);

#ifdef __cplusplus
}
#endif

#endif
