/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of keys for seals: those of tests 1 and 2 of RFC 8032 section 7.1, as llm-key pair writes them. */
#ifndef TESTS_SEAL_KEYS_H
#define TESTS_SEAL_KEYS_H

#define SEAL_PRIVATE_A                                                   \
    "-----BEGIN PRIVATE KEY-----\n"                                      \
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n" \
    "-----END PRIVATE KEY-----\n"
#define SEAL_PUBLIC_A                                                \
    "-----BEGIN PUBLIC KEY-----\n"                                   \
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n" \
    "-----END PUBLIC KEY-----\n"
#define SEAL_PRIVATE_B                                                   \
    "-----BEGIN PRIVATE KEY-----\n"                                      \
    "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n" \
    "-----END PRIVATE KEY-----\n"
#define SEAL_PUBLIC_B                                                \
    "-----BEGIN PUBLIC KEY-----\n"                                   \
    "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n" \
    "-----END PUBLIC KEY-----\n"

#endif
