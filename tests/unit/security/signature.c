/* SPDX-License-Identifier: Apache-2.0 */
#include "hex.h"
#include "key_place.h"
#include "logged.h"
#include "seal_keys.h"

#include <openssl/err.h>

#include "security/signature.h"

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};
static char path[64];

static void file_write(const char *text, unsigned mode)
{
    key_file_write(path, text);
    assert_int_equal(chmod(path, mode), 0);
}

static int up(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/llm-signature-%d", (int)getpid());
    logged[0] = 0;
    return 0;
}

static int down(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

static void the_vectors_of_rfc_8032_agree(void **state)
{
    static const struct {
        const char *private_key, *public_key, *text, *signature;
    } vectors[] = {
        {SEAL_PRIVATE_A, SEAL_PUBLIC_A, "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25"
         "bf"
         "5f0595bbe24655141438e7a100b"},
        {SEAL_PRIVATE_B, SEAL_PUBLIC_B, "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387"
         "b2"
         "eaeb4302aeeb00d291612bb0c00"},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct bytes text = hex(vectors[i].text), expected = hex(vectors[i].signature);
        uint8_t signature[LLI_SEAL_SIGNATURE];
        struct lli_verifier *verifier;
        struct lli_signer *signer;

        file_write(vectors[i].private_key, 0600);
        assert_int_equal(lli_signer_open(path, &keeper, &signer), LLM_OK);
        file_write(vectors[i].public_key, 0644);
        assert_int_equal(lli_verifier_open(path, &keeper, &verifier), LLM_OK);
        for (int again = 0; again < 2; again++) {
            assert_true(lli_signer_sign(signer, text.at, text.size, signature));
            assert_memory_equal(signature, expected.at, sizeof signature);
            assert_int_equal(lli_verifier_check(verifier, -1, text.at, text.size, signature), 0);
            signature[again * 40] ^= 1;
            assert_int_equal(lli_verifier_check(verifier, -1, text.at, text.size, signature), -1);
        }
        lli_signer_close(signer);
        lli_verifier_close(verifier);
    }
}

static void one_of_several_public_keys_is_found_or_demanded(void **state)
{
    static const uint8_t text[] = {1, 2, 3};
    uint8_t signature[LLI_SEAL_SIGNATURE];
    struct lli_verifier *verifier;
    struct lli_signer *signer;

    (void)state;
    file_write(SEAL_PRIVATE_B, 0600);
    assert_int_equal(lli_signer_open(path, &keeper, &signer), LLM_OK);
    file_write("the first\n" SEAL_PUBLIC_A "the second\n" SEAL_PUBLIC_B, 0444);
    assert_int_equal(lli_verifier_open(path, &keeper, &verifier), LLM_OK);
    assert_true(lli_signer_sign(signer, text, sizeof text, signature));
    assert_int_equal(lli_verifier_check(verifier, -1, text, sizeof text, signature), 1);
    assert_int_equal(lli_verifier_check(verifier, 1, text, sizeof text, signature), 1);
    assert_int_equal(lli_verifier_check(verifier, 0, text, sizeof text, signature), -1);
    lli_signer_close(signer);
    lli_verifier_close(verifier);
}

static void expect_refused(bool is_private, int error, const char *text)
{
    struct lli_verifier *verifier = NULL;
    struct lli_signer *signer = NULL;

    logged[0] = 0;
    assert_int_equal(is_private ? lli_signer_open(path, &keeper, &signer)
                                : lli_verifier_open(path, &keeper, &verifier),
                     error);
    assert_null(signer);
    assert_null(verifier);
    expect_logged(path);
    expect_logged(text);
    assert_null(strstr(logged, "MC4CAQ"));
}

static void files_that_cannot_be_trusted_are_refused(void **state)
{
    static char many[16385];

    (void)state;
    expect_refused(true, LLM_ENOTFOUND, "llm-key pair");
    expect_refused(false, LLM_ENOTFOUND, "llm-key pair");
    file_write(SEAL_PRIVATE_A, 0640);
    expect_refused(true, LLM_EACCESS, "chmod 0600");
    file_write(SEAL_PUBLIC_A, 0664);
    expect_refused(false, LLM_EACCESS, "chmod 0644");
    file_write("", 0600);
    expect_refused(true, LLM_EDAMAGED, "no private key");
    expect_refused(false, LLM_EDAMAGED, "1 to 16 public keys");
    file_write(SEAL_PUBLIC_A, 0600);
    expect_refused(true, LLM_EDAMAGED, "no private key");
    file_write(SEAL_PRIVATE_A, 0600);
    expect_refused(false, LLM_EDAMAGED, "1 to 16 public keys");
    for (int i = 0; i < 17; i++)
        memcpy(many + i * (int)(sizeof SEAL_PUBLIC_A - 1), SEAL_PUBLIC_A, sizeof SEAL_PUBLIC_A);
    file_write(many, 0600);
    expect_refused(false, LLM_EDAMAGED, "1 to 16 public keys");
    memset(many, '\n', sizeof many - 1);
    memcpy(many, SEAL_PUBLIC_A, sizeof SEAL_PUBLIC_A - 1);
    file_write(many, 0600);
    expect_refused(false, LLM_EDAMAGED, "shorter than 16384 bytes");
}

static void a_damaged_key_behind_a_good_one_is_refused(void **state)
{
    static char text[] = SEAL_PUBLIC_A SEAL_PUBLIC_B;
    const size_t end = sizeof text - 1, second = sizeof SEAL_PUBLIC_A - 1;

    (void)state;
    text[second + (end - second) / 2] = '!';
    file_write(text, 0600);
    expect_refused(false, LLM_EDAMAGED, "1 to 16 public keys");
    text[end - 20] = '\0';
    file_write(text, 0600);
    expect_refused(false, LLM_EDAMAGED, "1 to 16 public keys");
}

/* Nothing stays in the queue of libcrypto's errors, which the application may use. */
static void refusals_leave_no_errors_of_libcrypto(void **state)
{
    static const uint8_t text[] = {1, 2, 3};
    static const uint8_t signature[LLI_SEAL_SIGNATURE];
    struct lli_verifier *verifier;

    (void)state;
    ERR_clear_error();
    file_write("", 0600);
    expect_refused(true, LLM_EDAMAGED, "no private key");
    expect_refused(false, LLM_EDAMAGED, "1 to 16 public keys");
    file_write(SEAL_PUBLIC_A, 0600);
    assert_int_equal(lli_verifier_open(path, &keeper, &verifier), LLM_OK);
    assert_int_equal(lli_verifier_check(verifier, -1, text, sizeof text, signature), -1);
    lli_verifier_close(verifier);
    assert_int_equal(ERR_peek_error(), 0);
}

static void a_seal_has_the_bytes_of_the_protocols_vector(void **state)
{
    /* docs/protocol.md sections 14.6 and 14.8. */
    const struct bytes packet =
        hex("21002b008877665505000000090000000000ae8bc2f0ec07000101a06af0905bcd19f1d1cb92f95991cbff");
    static const char expected[] = "1f0084008877665500000000000000008877665544332211000105000000010000000100c"
                                   "367815b756beb431f8c0e62816e5aff"
                                   "13e2a7da5ead42a730035ca654e3190d7d1c6d8fe14ff33823486d870f5c36e119358fbf2"
                                   "945d615174f2a55ea5f6d643f7099ce"
                                   "fbd467ed750cfd706660d819738f998e4abd6af2c5fe810256715a07";
    struct lli_seal seal = {
        .session = UINT64_C(0x1122334455667788), .count = 1, .ranges = {{.first = 0x100000005, .count = 1}}};
    uint8_t made[LLI_SEAL_MAX], text[LLI_SEAL_TEXT_MAX];
    struct lli_digest digest;
    struct lli_signer *signer;
    uint32_t size, text_size;

    (void)state;
    assert_true(lli_digest_open(&digest));
    assert_true(lli_digest_begin(&digest) && lli_digest_add(&digest, packet.at, packet.size) &&
                lli_digest_end(&digest, text));
    assert_true(lli_digest_begin(&digest) && lli_digest_add(&digest, text, LLI_SEAL_DIGEST) &&
                lli_digest_end(&digest, seal.ranges[0].digest));
    lli_digest_close(&digest);
    file_write(SEAL_PRIVATE_A, 0600);
    assert_int_equal(lli_signer_open(path, &keeper, &signer), LLM_OK);
    size = lli_seal_put(made, &seal);
    text_size = lli_seal_text(made, &seal, text);
    assert_true(lli_signer_sign(signer, text, text_size, made + text_size));
    lli_signer_close(signer);
    assert_int_equal(2 * size, sizeof expected - 1);
    for (uint32_t i = 0; i < size; i++) {
        const struct bytes byte = hex((char[]){expected[2 * i], expected[2 * i + 1], 0});

        assert_int_equal(made[i], byte.at[0]);
    }
}

static void a_digest_is_that_of_all_pieces(void **state)
{
    /* FIPS 180-4, the example of one block. */
    const struct bytes expected = hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    struct lli_digest digest;
    uint8_t result[LLI_SEAL_DIGEST];

    (void)state;
    assert_true(lli_digest_open(&digest));
    for (int again = 0; again < 2; again++) {
        assert_true(lli_digest_begin(&digest));
        assert_true(lli_digest_add(&digest, (const uint8_t *)"a", 1));
        assert_true(lli_digest_add(&digest, (const uint8_t *)"bc", 2));
        assert_true(lli_digest_end(&digest, result));
        assert_memory_equal(result, expected.at, sizeof result);
    }
    lli_digest_close(&digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_vectors_of_rfc_8032_agree, up, down),
        cmocka_unit_test_setup_teardown(one_of_several_public_keys_is_found_or_demanded, up, down),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_trusted_are_refused, up, down),
        cmocka_unit_test_setup_teardown(a_damaged_key_behind_a_good_one_is_refused, up, down),
        cmocka_unit_test_setup_teardown(refusals_leave_no_errors_of_libcrypto, up, down),
        cmocka_unit_test(a_digest_is_that_of_all_pieces),
        cmocka_unit_test_setup_teardown(a_seal_has_the_bytes_of_the_protocols_vector, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
