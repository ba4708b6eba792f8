/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watched.h"

#include "engine/objects.h"

void lli_watched_log(const struct llm_context *context, const char *object,
                     const struct llm_bottleneck *bottleneck)
{
    const enum llm_level level = bottleneck->limit == LLM_LIMIT_NONE ? LLM_LEVEL_INFO : LLM_LEVEL_WARNING;

    if (bottleneck->receiver != 0) {
        lli_log(&context->log, level, "%s: receiver %016llx is limited by %s", object,
                (unsigned long long)bottleneck->receiver, llm_limit_name(bottleneck->limit));
        return;
    }
    lli_log(&context->log, level, "%s: limited by %s", object, llm_limit_name(bottleneck->limit));
}
