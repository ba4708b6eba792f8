/* SPDX-License-Identifier: Apache-2.0 */
/* Library version and the export attribute of public functions. Included by <llm/llm.h>. */
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
#define LLM_VERSION_MINOR 2
#define LLM_VERSION_PATCH 0

/* Returns the version of the linked library, "major.minor.patch". The string is static. */
LLM_API const char *llm_version(void);

#ifdef __cplusplus
}
#endif

#endif
