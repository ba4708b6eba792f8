/* SPDX-License-Identifier: Apache-2.0 */
/* libcrypto that is limited to FIPS and lacks what keys and seals need, by a configuration that is read when it starts. */
#define _GNU_SOURCE
#include "key_place.h"
#include "logged.h"
#include "seal_keys.h"

#include "security/aead.h"
#include "security/guard.h"
#include "security/signature.h"

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};
static char path[64];

static void keys_are_refused_with_the_suite_and_the_remedy(void **state)
{
    const struct lli_guard_config config = {.path = path,
                                            .name = "keys:1",
                                            .log = &keeper,
                                            .mode = LLI_PROTECT_ENCRYPT,
                                            .packet_max = 2048,
                                            .senders = 8};
    struct lli_guard *guard;

    (void)state;
    key_file_write(path, KEY_EPOCH(7, "aes-128-gcm", KEY_A, "keys:1"));
    assert_int_equal(lli_guard_open(&config, &guard), LLM_EOPTION);
    assert_null(guard);
    expect_logged(path);
    expect_logged("line 1: libcrypto does not have aes-128-gcm with HKDF-SHA-256");
    expect_logged("limited to FIPS");
}

static void seals_are_refused_likewise(void **state)
{
    struct lli_verifier *verifier;
    struct lli_signer *signer;

    (void)state;
    key_file_write(path, SEAL_PRIVATE_A);
    assert_int_equal(lli_signer_open(path, &keeper, &signer), LLM_EOPTION);
    assert_null(signer);
    expect_logged("without the option seal");
    key_file_write(path, SEAL_PUBLIC_A);
    assert_int_equal(lli_verifier_open(path, &keeper, &verifier), LLM_EOPTION);
    assert_null(verifier);
    expect_logged("without the option seal_keys");
}

/* Another library may not do what libcrypto was forbidden. */
static void no_other_back_end_takes_its_place(void **state)
{
    (void)state;
    assert_int_equal(lli_aead_backend(), LLI_AEAD_LIBCRYPTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_refused_with_the_suite_and_the_remedy),
        cmocka_unit_test(seals_are_refused_likewise),
        cmocka_unit_test(no_other_back_end_takes_its_place),
    };
    char configuration[80];
    int failed;

    (void)snprintf(path, sizeof path, "/tmp/llm-guard-fips-%d", (int)getpid());
    (void)snprintf(configuration, sizeof configuration, "%s.cnf", path);
    key_file_write(configuration, "openssl_conf = all\n[all]\nalg_section = algorithms\n[algorithms]\n"
                                  "default_properties = fips=yes\n");
    if (setenv("OPENSSL_CONF", configuration, 1) != 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)unlink(configuration);
    return failed;
}
